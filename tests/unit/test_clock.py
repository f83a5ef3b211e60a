"""The clock of events and samples: one for all processes of a kernel, deaf to the wall clock."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.spec import clock

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _fresh_clock() -> Iterator[None]:
    clock._offset_s.cache_clear()
    yield
    clock._offset_s.cache_clear()


def test_a_step_of_the_wall_clock_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    before = clock.now()
    assert before == pytest.approx(time.time(), abs=60)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    assert 0 <= clock.now() - before < 60


def now_in_a_process_with(variables: dict[str, str]) -> float:
    program = "from cluster.spec import clock; print(clock.now())"
    command = [sys.executable, "-c", program]
    return float(subprocess.check_output(command, cwd=PROJECT, env=variables, text=True))


def test_a_process_of_the_same_kernel_takes_the_clock_that_it_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 1e6)
    given = clock.shared()
    ahead = now_in_a_process_with(given) - real()
    assert ahead == pytest.approx(1e6, abs=60)


def test_a_process_of_another_kernel_takes_its_own() -> None:
    _, _, offset = clock.shared()[clock.VARIABLE].partition(" ")
    other = {clock.VARIABLE: f"0a1b2c3d {float(offset) + 1e6}"}
    assert now_in_a_process_with(other) == pytest.approx(time.time(), abs=60)
