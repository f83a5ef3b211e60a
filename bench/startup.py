"""Time from the command to the first training step, by number of workers, and memory.

Everything is warm: environment, image, data. The time of the first step is read from node 0's
events. Memory is by how much the machine's available memory went down at most while the run lasted.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.tools.session import add_engine, call, counts
from bench.tools.table import Table
from cluster.observe.units import bytes_text
from cluster.spec.documents.events import Step
from cluster.spec.documents.run_folder import find_runs

BATCH = 16


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument(
        "--workers", type=counts, default="6,32,128,256", help="a list (default: %(default)s)"
    )


def available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    fields = next(line for line in lines if line.startswith("MemAvailable")).split()
    return int(fields[1]) * 1024


@contextmanager
def memory_watched() -> Iterator[list[int]]:
    """Readings of the available memory, five a second."""
    readings, done = [available_bytes()], threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            readings.append(available_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield readings
    finally:
        done.set()
        thread.join()


def first_step(engine: str, workers: int) -> tuple[float, int]:
    """Seconds from starting the command to the end of the first step on node 0; memory in bytes."""
    with (
        memory_watched() as memory,
        tempfile.TemporaryDirectory(prefix="gradwire-bench-") as output,
    ):
        started = time.time()
        call(
            *("--engine", engine, "--workers", str(workers), "--output", output, "--epochs", "1"),
            *("--batch-size", str(BATCH), "--train-size", str(BATCH * workers)),
        )
        (run,) = find_runs(Path(output))
        ended = next(event.t for event in run.read_events(0) if isinstance(event, Step))
        return ended - started, memory[0] - min(memory)


def run(args: argparse.Namespace) -> Table:
    found = {workers: first_step(args.engine, workers) for workers in args.workers}
    first = next(iter(found))
    return Table(
        f"mnist-cnn, {args.engine}",
        ("workers", "first step", f"over {first} workers", "memory", "per worker"),
        [
            (
                str(workers),
                f"{value_s:.1f} s",
                f"{value_s / found[first][0]:.2f}",
                bytes_text(used_bytes),
                bytes_text(used_bytes / workers),
            )
            for workers, (value_s, used_bytes) in found.items()
        ],
    )
