"""The cost of --live: CPU time of the command, and how soon a point can be seen.

CPU time is that of ./measure.sh itself, without the nodes, while a run trains: without --live, with
it while nobody looks, and polled once a second as the page does. What a browser needs to draw is
not in it. The delay of a point is from the event `epoch` to the answer that has it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.tools.session import PROJECT, add_engine, count
from bench.tools.table import Table
from cluster.observe.units import percent_text, seconds_text
from cluster.spec.documents.events import Epoch, Step
from cluster.spec.documents.run_folder import find_runs

FLAGS = ("--workers", "4", "--train-size", "2048", "--epochs", "2000", "--quiet", "--no-report")
POLL_S = 1.0
Look = Callable[[], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--seconds", type=count, default=30, help="per case (default: %(default)s)")


class Viewer:
    """Asks as the page does, and notes when it first saw each epoch."""

    def __init__(self, address: str) -> None:
        self._address, self._version = address, 0
        self.seen: list[float] = []

    def look(self) -> None:
        url = f"{self._address}state.json?after={self._version}"
        state = json.loads(urllib.request.urlopen(url, timeout=60).read())
        self._version = state["version"]
        for run in state["runs"]:
            steps = int(run["cells"].get("epoch", "0").partition(" ")[0])
            self.seen += [time.time()] * (steps - len(self.seen))


def cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share(process: int, seconds: int, look: Look) -> float:
    """Of a core, while it is looked at once a second."""
    began, used = time.monotonic(), cpu_s(process)
    for tick in itertools.count(1):
        look()
        time.sleep(max(0.0, began + tick * POLL_S - time.monotonic()))
        if time.monotonic() >= began + seconds:
            return (cpu_s(process) - used) / (time.monotonic() - began)
    raise AssertionError("unreachable")


def await_step(output: Path) -> None:
    while not any(
        isinstance(event, Step) for run in find_runs(output) for event in run.read_events(0)
    ):
        time.sleep(0.2)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    lines = (line for line in process.stderr if line.startswith("live view: "))
    return next(lines).split()[-1]


def measure(engine: str, seconds: int, *flags: str) -> tuple[list[float], list[float]]:
    """CPU shares of the cases, and the delays of points, of one run that is then interrupted."""
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as output:
        command = [
            str(PROJECT / "measure.sh"),
            *FLAGS,
            "--engine",
            engine,
            "--output",
            output,
            *flags,
        ]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        viewer = Viewer(_address(process)) if flags else None
        await_step(Path(output))
        shares = [share(process.pid, seconds, lambda: None)]
        delays = []
        if viewer:
            viewer.look()
            already = len(viewer.seen)
            shares.append(share(process.pid, seconds, viewer.look))
            events = find_runs(Path(output))[0].read_events(0)
            ended = [event.t for event in events if isinstance(event, Epoch)]
            delays = [s - t for s, t in zip(viewer.seen[already:], ended[already:], strict=False)]
        process.send_signal(signal.SIGINT)
        process.communicate()
        return shares, delays


def run(args: argparse.Namespace) -> Table:
    (without,), _ = measure(args.engine, args.seconds)
    (unseen, polled), delays = measure(args.engine, args.seconds, "--live")
    rows = [
        ("without --live", without),
        ("--live, nobody looks", unseen),
        ("--live, polled", polled),
    ]
    return Table(
        f"mnist-cnn, 4 workers, {args.engine}, {args.seconds} s each",
        ("case", "CPU of the command, of a core", "more than without"),
        [
            (name, percent_text(value), percent_text(value - without, signed=True))
            for name, value in rows
        ],
        [
            f"Delay of a point: median {seconds_text(median(delays))},"
            f" maximum {seconds_text(max(delays))}, {len(delays)} epochs."
        ],
    )
