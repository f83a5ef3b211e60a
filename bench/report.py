"""How long the report of many runs takes, in how much memory, and how soon its page can be read: python -m bench.report

Runs are copies of the recorded ones (tests/data/runs), each with its own seed, learning rate and 10,000 samples.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cluster.spec.run_folder import RunFolder, find_runs
from tests.browser import chromium

PROJECT = Path(__file__).resolve().parent.parent
RECORDED = PROJECT / "tests" / "data" / "runs"
ASKED_S, ASKED_BYTES, ASKED_OPEN_S = 20, 10**9, 2


def make_runs(output: Path, count: int, samples: int) -> None:
    """Session after session of ten runs."""
    recorded = [folder for folder in find_runs(RECORDED) if "single" not in folder.name]
    for number in range(count):
        source = recorded[number % len(recorded)]
        run = RunFolder(output / f"session-{number // 10:03}" / f"{number:03}-{source.name}")
        (run.path / "events").mkdir(parents=True)
        for path in source.path.rglob("*"):
            if path.is_file() and path.name not in ("samples.csv", "summary.json"):
                (run.path / path.relative_to(source.path)).write_bytes(path.read_bytes())
        summary = source.read_summary()
        summary["session"], summary["run"] = run.session, run.name
        summary["spec"]["seed"] = number % 3
        summary["spec"]["lr"] = 0.01 * (1 + number // 40)
        run.summary.write_text(json.dumps(summary))
        _write_samples(run, summary["spec"]["workers"], samples, _start(source))


def _start(run: RunFolder) -> float:
    return float(next(run.read_samples()).t)


def _write_samples(run: RunFolder, nodes: int, samples: int, start: float) -> None:
    lines = ["t,source,node,sent_bytes,sent_packets,received_bytes,received_packets"]
    for tick in range(samples // nodes):
        sent = 120_000 * tick + 3_000 * (tick % 7)
        t = f"{start + tick / 10:.4f}"
        lines += [f"{t},kernel,node{k},{sent + k},{tick},{sent},{tick}" for k in range(nodes)]
    run.samples.write_text("\n".join(lines) + "\n")


def write_report(runs: Path, output: Path) -> tuple[float, int]:
    """Seconds, and the most memory in bytes, of a process of its own."""
    start = time.monotonic()
    command = [sys.executable, "-m", "analysis.network_report", str(runs), "--output", str(output)]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0
    return time.monotonic() - start, 1024 * used.ru_maxrss


def open_page(page: Path) -> dict[str, float]:
    """Seconds from the first byte until one can read the page, use it, has its first figure, and has seen them all.

    Figures are drawn when they come into sight: here the person scrolls as soon as the page can be used.
    """
    look = "document.querySelectorAll('figure.chart')[{0}].scrollIntoView()"
    drawn = "document.querySelectorAll('figure.chart')[{0}].dataset.drawn"
    with chromium() as browser:
        browser.open(page)
        found = {}
        for name, entry in (("read", "first-contentful-paint"), ("used", "ready")):
            found[name] = browser.run(f"performance.getEntriesByName('{entry}')[0].startTime")
        for place in range(browser.run("document.querySelectorAll('figure.chart').length")):
            browser.run(look.format(place))
            browser.wait(drawn.format(place))
            found["last figure"] = browser.run("performance.now()")
            found.setdefault("first figure", found["last figure"])
    return {name: milliseconds / 1000 for name, milliseconds in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument("--samples", type=int, default=10_000, help="a run (default: %(default)s)")
    args = parser.parse_args()
    for count in (args.runs, 100):
        with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as folder:
            make_runs(Path(folder) / "runs", count, args.samples)
            seconds, peak = write_report(Path(folder) / "runs", Path(folder) / "report")
            page = Path(folder) / "report" / "report.html"
            opened = open_page(page)
            print(
                f"{count} runs of {args.samples:,} samples: report in {seconds:.1f} s (asked: {ASKED_S}), at most"
                f" {peak / 1e6:.0f} MB (asked: {ASKED_BYTES / 1e6:.0f}); page of {page.stat().st_size / 1e6:.1f} MB,"
                f" read after {opened['read']:.2f} s, used after {opened['used']:.2f} s (asked, for 100: {ASKED_OPEN_S});"
                f" scrolled at once, its first figure is there after {opened['first figure']:.2f} s, the last one after"
                f" {opened['last figure']:.2f} s"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
