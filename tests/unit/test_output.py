"""What is shown while something takes long, and where a report could not be written."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cluster import output
from cluster.engine import EngineError
from cluster.observe import progress
from cluster.observe.progress import say_if_slow


def test_a_report_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as failed:
        output.write_report(tmp_path)
    assert f"no runs in {tmp_path}" in str(failed.value)
    assert f"python3 -m analysis.network_report {tmp_path}" in str(failed.value)
    assert "\n" not in str(failed.value)


def test_only_what_is_slow_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with say_if_slow(said.append, "quick"):
        pass
    monkeypatch.setattr(progress, "SLOW_S", 0.01)
    with say_if_slow(said.append, "slow"):
        deadline = time.monotonic() + 60
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
    assert said == ["slow"]
