"""Time from the command to the first training step, by number of workers.

Everything is warm: environment, image, data. The time of the first step is read from node 0's
events.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench.session import add_engine, call, counts
from bench.table import Table
from cluster.spec.documents.events import Step
from cluster.spec.documents.run_folder import find_runs

BATCH = 16


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument(
        "--workers", type=counts, default="6,32,128", help="a list (default: %(default)s)"
    )


def first_step_s(engine: str, workers: int) -> float:
    """Seconds from starting the command to the end of the first step on node 0."""
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as output:
        started = time.time()
        call(
            *("--engine", engine, "--workers", str(workers), "--output", output, "--epochs", "1"),
            *("--batch-size", str(BATCH), "--train-size", str(BATCH * workers)),
        )
        (run,) = find_runs(Path(output))
        return next(event.t for event in run.read_events(0) if isinstance(event, Step)) - started


def run(args: argparse.Namespace) -> Table:
    seconds = {workers: first_step_s(args.engine, workers) for workers in args.workers}
    first = next(iter(seconds))
    return Table(
        f"mnist-cnn, {args.engine}",
        ("workers", "first step", f"over {first} workers"),
        [
            (str(workers), f"{value_s:.1f} s", f"{value_s / seconds[first]:.2f}")
            for workers, value_s in seconds.items()
        ],
    )
