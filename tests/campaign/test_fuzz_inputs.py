"""Whatever is typed or written into a spec: accepted, or refused in one line; nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
MOST_MB = 500


@pytest.mark.parametrize(("kind", "tries"), [("measure", 600), ("others", 60), ("specs", 600)])
def test_random_input_is_accepted_or_refused_in_one_line(kind: str, tries: int) -> None:
    fuzz(kind, tries, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "tries"), [("measure", 6000), ("others", 1000), ("specs", 2000)])
def test_so_is_much_more_of_it(kind: str, tries: int) -> None:
    fuzz(kind, tries, seed=2)


def fuzz(kind: str, tries: int, seed: int) -> None:
    """In a process of its own, whose memory is that of the tries alone."""
    command = [sys.executable, "-m", "tests.campaign.fuzz_inputs", kind, str(tries), str(seed)]
    answer = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    outcome = json.loads(answer.stdout)
    failures = outcome.pop("failures")
    print(outcome)  # the figures of docs/reliability.md: pytest -s
    assert failures == []
    assert outcome["tries"] == tries
    assert min(outcome["accepted"], outcome["refused"]) > tries / 50
    assert outcome["peak_mb"] < MOST_MB
