"""README's quick start works as it is written, on namespaces and with less data."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.documentation import PROJECT, code_lines

SMALL = ("--engine", "netns", "--epochs", "1", "--train-size", "768")


def quick_start() -> list[str]:
    """The commands of the section, without comments."""
    section = (
        (PROJECT / "README.md").read_text().partition("## Quick start")[2].partition("\n## ")[0]
    )
    lines = [line.partition("#")[0].strip() for line in code_lines(section)]
    return [line for line in lines if line.startswith(("./", "python3"))]


def run(command: str, *more: str) -> str:
    done = subprocess.run(
        [*command.split(), *more], cwd=PROJECT, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_quick_start_trains_reports_and_says_what_this_machine_can_do(tmp_path: Path) -> None:
    train, report, doctor = quick_start()
    table = run(train, *SMALL, "--output", str(tmp_path / "runs"))
    assert "pairwise" in table
    assert "completed" in table
    assert len(list(tmp_path.glob("runs/*/report.html"))) == 1
    run(report, str(tmp_path / "runs"), "--output", str(tmp_path / "report"))
    assert (tmp_path / "report" / "report.html").stat().st_size > 100_000
    assert (tmp_path / "report" / "tables" / "runs.csv").exists()
    assert "netns" in run(doctor)
