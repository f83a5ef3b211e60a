"""Benchmarks: their command line, their tables, and the page they are written into."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.__main__ import NAMES, load, main, make_parser
from bench.tools import page, session
from bench.tools.table import Benchmark, Table

TABLE = Table("2 workers", ("strategy", "ratio"), [("ring", "1.02"), ("allreduce", "0.99")])


def test_every_benchmark_is_listed_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert all(len(line.split()) > 3 for line in lines)


def test_every_file_with_a_benchmark_is_in_the_table() -> None:
    files = {path.stem for path in Path(session.PROJECT, "bench").glob("*.py")}
    assert files - {"__init__", "__main__"} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs_with_its_defaults(name: str) -> None:
    args = make_parser().parse_args([name])
    assert args.benchmark == load(name)
    assert not args.write


def test_a_session_of_a_benchmark_writes_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "measure.sh"
    script.write_text('#!/bin/sh\necho "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(session, "PROJECT", tmp_path)
    assert {"--workers", "3", "--no-report", "--quiet"} <= set(
        session.call("--workers", "3").split()
    )


def test_a_session_that_fails_ends_the_benchmark_with_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "measure.sh"
    script.write_text("#!/bin/sh\necho node2 is gone >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(session, "PROJECT", tmp_path)
    with pytest.raises(SystemExit, match="1"):
        session.call()
    assert capsys.readouterr().err.endswith("node2 is gone\n")


def test_columns_of_a_table_are_aligned() -> None:
    lines = TABLE.as_text().splitlines()
    assert lines[0] == "2 workers"
    assert {len(line) for line in lines[1:]} == {len("allreduce  ratio")}


def test_a_section_has_the_date_the_command_and_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = "# Benchmarks\n<!-- bench x -->\nold\n<!-- end x -->\n", "\nthe rest\n"
    (tmp_path / "benchmarks.md").write_text(before + after)
    monkeypatch.setattr(page, "PAGE", tmp_path / "benchmarks.md")
    benchmark = Benchmark("x", "What it is.\n\nHow.\n", lambda parser: None, lambda args: TABLE)
    for _ in range(2):  # writing again replaces
        page.write_section(benchmark, "python3 -m bench x", TABLE)
    text = (tmp_path / "benchmarks.md").read_text()
    assert text.startswith("# Benchmarks\n")
    assert text.endswith("\nthe rest\n")
    assert "old" not in text
    assert text.count("python3 -m bench x") == 1
    assert re.search(r"Measured \d{4}-\d\d-\d\d", text)
    assert "| allreduce | 0.99 |" in text


def test_a_page_without_the_markers_of_a_benchmark_is_refused() -> None:
    with pytest.raises(ValueError, match="<!-- bench new -->"):
        page.replace_section("# Benchmarks\n", "new", "text")
