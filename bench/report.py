"""Time and memory of the report of many runs, and how soon its page can be read and used.

The runs are copies of the recorded ones (tests/data/runs), each with its own seed and learning
rate. Figures render when they come into view: the page is scrolled as soon as it can be used.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.tools.session import PROJECT, count, counts
from bench.tools.table import Table
from cluster.spec.documents.run_folder import RunFolder, find_runs
from tests.browser import chromium
from tests.peak_memory import peak_bytes

RECORDED = PROJECT / "tests" / "data" / "runs"
COLUMNS = {
    "runs": "",
    "report": "12 s",
    "memory": "300 MB",
    "page": "",
    "read after": "0.5 s",
    "used after": "2 s",
    "first figure": "",
    "last figure": "",
}
"""Columns, with the target of those that have one."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=counts, default="100,200", help="a list (default: %(default)s)"
    )
    parser.add_argument(
        "--samples", type=count, default=10_000, help="a run (default: %(default)s)"
    )


def make_runs(output: Path, count: int, samples: int) -> None:
    """Sessions of ten runs each."""
    recorded = [folder for folder in find_runs(RECORDED) if "single" not in folder.name]
    for number in range(count):
        source = recorded[number % len(recorded)]
        run = RunFolder(output / f"session-{number // 10:03}" / f"{number:03}-{source.name}")
        (run.path / "events").mkdir(parents=True)
        for path in source.path.rglob("*"):
            if path.is_file() and path.name not in ("samples.csv", "summary.json"):
                (run.path / path.relative_to(source.path)).write_bytes(path.read_bytes())
        summary = json.loads(source.summary.read_text())
        summary["session"], summary["run"] = run.session, run.name
        summary["spec"]["seed"] = number % 3
        summary["spec"]["lr"] = 0.01 * (1 + number // 40)
        run.summary.write_text(json.dumps(summary))
        start_s = float(next(source.read_samples()).t)
        _write_samples(run, summary["spec"]["workers"], samples, start_s)


def _write_samples(run: RunFolder, nodes: int, samples: int, start_s: float) -> None:
    lines = ["t,source,node,sent_bytes,sent_packets,received_bytes,received_packets"]
    for tick in range(samples // nodes):
        sent = 120_000 * tick + 3_000 * (tick % 7)
        t = f"{start_s + tick / 10:.4f}"
        lines += [f"{t},kernel,node{k},{sent + k},{tick},{sent},{tick}" for k in range(nodes)]
    run.samples.write_text("\n".join(lines) + "\n")


def write_report(runs: Path, output: Path) -> tuple[float, int]:
    """Seconds and peak memory in bytes of the report's process."""
    start = time.monotonic()
    command = [sys.executable, "-m", "analysis.network_report", str(runs), "--output", str(output)]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_bytes(process.pid))
        time.sleep(0.02)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {process.returncode}")
    return time.monotonic() - start, peak


def open_page(page: Path) -> list[float]:
    """Seconds until the page can be read, used, and shows its first and its last figure."""
    figure = "document.querySelectorAll('figure.chart')[{0}]"
    drawn = []
    with chromium() as browser:
        browser.open(page)
        opened = [
            browser.run(f"performance.getEntriesByName('{entry}')[0].startTime")
            for entry in ("first-contentful-paint", "ready")
        ]
        browser.run(
            "document.querySelectorAll('details').forEach(folded => { folded.open = true })"
        )
        for place in range(browser.run("document.querySelectorAll('figure.chart').length")):
            browser.run(f"{figure.format(place)}.scrollIntoView()")
            browser.wait(f"{figure.format(place)}.dataset.drawn")
            drawn.append(browser.run("performance.now()"))
    return [milliseconds / 1000 for milliseconds in (*opened, drawn[0], drawn[-1])]


def run(args: argparse.Namespace) -> Table:
    rows = [["target", *list(COLUMNS.values())[1:]]]
    for runs in args.runs:
        with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as folder:
            make_runs(Path(folder) / "runs", runs, args.samples)
            seconds, peak = write_report(Path(folder) / "runs", Path(folder) / "report")
            page = Path(folder) / "report" / "report.html"
            opened = [f"{value_s:.2f} s" for value_s in open_page(page)]
            size = f"{page.stat().st_size / 1e6:.1f} MB"
            rows.append([str(runs), f"{seconds:.1f} s", f"{peak / 1e6:.0f} MB", size, *opened])
    return Table(f"runs of {args.samples:,} samples", tuple(COLUMNS), rows)
