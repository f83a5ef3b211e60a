"""How much a run is slowed by being measured: step time over that of the same steps unwatched.

First row: counters and the host's load are read every second, against once an hour; sessions take
turns. Second row: a program in which collectives, connections and steps are counted, against the
same program without that, by turns on the same nodes (`python -I` leaves the counting out). Two
nodes, a core each. Medians of the turns, and the spread of their ratios.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.tools.session import PROJECT, add_engine, call, count, known, measure
from bench.tools.table import Table
from cluster.spec.documents.run_folder import find_runs

TRAINING = ("--workers", "2", "--epochs", "1", "--batch-size", "256", "--train-size", "30720")
BY_TURNS = "by_turns.py"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--turns", type=count, default=7, help="(default: %(default)s)")
    parser.add_argument(
        "--steps", type=count, default=400, help="of the program, per turn (default: %(default)s)"
    )


def of_counters(engine: str, turns: int) -> list[tuple[float, float]]:
    """Step times watched and unwatched, by turn."""

    def step_s(interval: str) -> float:
        (summary,) = measure("--engine", engine, *TRAINING, "--interval", interval)
        return known(known(summary.seconds).step_median_s)

    return [(step_s("1"), step_s("3600")) for _ in range(turns)]


def of_counting(engine: str, turns: int, steps: int) -> list[tuple[float, float]]:
    """The same of a program, on node 0."""
    program = (str(PROJECT / "bench" / "programs" / BY_TURNS), str(turns), str(steps))
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as output:
        flags = ("--engine", engine, "--workers", "2", "--output", output)
        call(*flags, program=program)
        (run,) = find_runs(Path(output))
        log = (run.path / "logs" / "node0.log").read_text()
    found = next(line for line in log.splitlines() if line.startswith("seconds "))
    return [(watched, plain) for watched, plain in json.loads(found.removeprefix("seconds "))]


def row(name: str, found: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    ratios = sorted(watched / plain for watched, plain in found)
    watched_s, plain_s = (median(times) for times in zip(*found, strict=True))
    return (
        name,
        f"{1000 * watched_s:.3f} ms",
        f"{1000 * plain_s:.3f} ms",
        f"{median(ratios):.4f}",
        f"{ratios[0]:.4f} to {ratios[-1]:.4f}",
    )


def run(args: argparse.Namespace) -> Table:
    return Table(
        f"{args.engine}, {args.turns} turns; mnist-cnn with batches of 256, and a program with DDP",
        ("what is done", "step, watched", "step, unwatched", "ratio, median", "ratios"),
        [
            row("counters read every second", of_counters(args.engine, args.turns)),
            row("a program's calls counted", of_counting(args.engine, args.turns, args.steps)),
        ],
    )
