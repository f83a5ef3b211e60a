"""A sweep whose output nobody reads completes; one whose folder is taken away says so and ends."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from cluster.watch import FOLDER_REMOVED
from tests.measuring import COMMAND, PROJECT, await_steps, finish, processes_of, start

ENGINE = ("--engine", "netns", "--strategy", "single")
TWO_SHORT_RUNS = (
    *("--model", "synthetic:4k", "--train-size", "2", "--batch-size", "1", "--epochs", "1"),
    *("--repeat", "2"),
)
TWO_LONG_RUNS = (
    *("--model", "synthetic:4k:1:100ms", "--train-size", "5000", "--batch-size", "1"),
    *("--epochs", "1", "--repeat", "2"),
)


@pytest.mark.parametrize("redirection", ["2>&1 | head -n 1", ">&- 2>&-"])
def test_a_sweep_completes_when_nobody_reads_its_output(redirection: str, tmp_path: Path) -> None:
    flags = [*ENGINE, *TWO_SHORT_RUNS, "--json", "--no-report", "--output", str(tmp_path)]
    line = f"{shlex.join([*COMMAND, *flags])} {redirection}"
    answer = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=PROJECT)
    found = [json.loads(path.read_text()) for path in tmp_path.glob("*/*/summary.json")]
    assert [summary["status"] for summary in found] == ["completed"] * 2
    assert answer.returncode == 0


def test_a_session_that_is_moved_away_ends_in_a_sentence_for_each_run(tmp_path: Path) -> None:
    output = tmp_path / "runs"
    measuring = start(*ENGINE, *TWO_LONG_RUNS, "--output", str(output))
    session = await_steps(output).parent
    session.rename(tmp_path / "elsewhere")
    ended = finish(measuring)
    assert ended.code == 1
    assert [summary["error"] for summary in ended.summaries] == [FOLDER_REMOVED] * 2
    assert "Traceback" not in ended.stderr
    assert processes_of(output) == []
