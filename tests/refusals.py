"""Call the real command line with a mistake, and get the one line in which it is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import measure
from cluster.engine import EngineUnavailable
from cluster.namespaces import engine as netns_engine

PROJECT = Path(__file__).resolve().parents[1]
NO_DOCKER = "unix:///nonexistent.sock"
ANNOUNCED = ("planning the runs", "looking for an engine", "removed what a killed measure")


def contents(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a refused call prints, once all that holds for every refusal is checked."""
    before = contents(Path.cwd())
    assert measure.main(arguments) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert contents(Path.cwd()) == before
    line = one_line(stderr)
    assert line.startswith("measure: ")
    return line


def one_line(stderr: str) -> str:
    """The only line, but for what a busy machine waits for, and what others left on it."""
    (line,) = [text for text in stderr.splitlines() if not text.startswith(ANNOUNCED)]
    return line


def need_namespaces() -> None:
    """The engine is checked before the data: without any engine that is what is said."""
    try:
        netns_engine.check()
    except EngineUnavailable as missing:
        pytest.skip(str(missing))


def measure_command(*arguments: str) -> list[str]:
    return [sys.executable, "-B", "-m", "cluster.measure", *arguments]


def refusal_of(command: list[str], folder: Path) -> str:
    """Like refusal(), in a process of its own, on a machine without Docker."""
    before = contents(folder)
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "DOCKER_HOST": NO_DOCKER}
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert answer.returncode == 2, answer.stderr
    assert answer.stdout == ""
    assert contents(folder) == before
    return one_line(answer.stderr)
