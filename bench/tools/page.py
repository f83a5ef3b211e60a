"""docs/benchmarks.md: one generated section for each benchmark, with its date and its command."""

from __future__ import annotations

import datetime
import os
import re
import textwrap
from pathlib import Path

from bench.tools.table import Benchmark, Table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
WIDTH = 120


def section(benchmark: Benchmark, command: str, table: Table) -> str:
    today, load = datetime.date.today().isoformat(), os.getloadavg()[0]
    about = f"{benchmark.title}. {benchmark.text}"
    body = [
        f"## {benchmark.name}",
        textwrap.fill(" ".join(about.split()), WIDTH, break_on_hyphens=False),
        f"Measured {today} on {os.cpu_count()} cores, load average {load:.1f}:\n\n    {command}",
        table.as_markdown(),
    ]
    return "\n\n".join(body)


def replace_section(page: str, name: str, text: str) -> str:
    """The page with what stands between a benchmark's two markers replaced."""
    start, end = f"<!-- bench {name} -->", f"<!-- end {name} -->"
    pattern = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"{PAGE.name} has no markers {start} and {end}")
    return pattern.sub(lambda _: f"{start}\n{text}\n{end}", page)


def write_section(benchmark: Benchmark, command: str, table: Table) -> None:
    page = PAGE.read_text()
    PAGE.write_text(replace_section(page, benchmark.name, section(benchmark, command, table)))
