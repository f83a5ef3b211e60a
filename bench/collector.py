"""The cost of watching: CPU of our readings of counters beside that of `docker stats`.

The containers of each row sleep. Both ways of watching run for the same number of seconds, one
after the other, and the CPU time of everything that takes part is counted: the reader, dockerd and
containerd, less what these two use while nobody asks. Ours is what a run with Docker does: the
collector with its two sources, and the host's load. The last columns are a run in namespaces: the
CPU of ./measure.sh while N nodes train.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from bench.live import await_step, cpu_s, share
from bench.tools.session import PROJECT, count, counts
from bench.tools.table import Table
from cluster.containers.cluster import counter_sources
from cluster.containers.projects import client
from cluster.observe.collector import Collector
from cluster.observe.host import HostCollector
from cluster.observe.units import percent_text
from cluster.spec.documents.run_folder import node_name
from cluster.spec.experiment import Experiment

IMAGE = "gradwire-worker:latest"
ENGINE = ("dockerd", "containerd")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--nodes", type=counts, default="6,24,64", help="a list (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=count, default=20, help="per case (default: %(default)s)")


@contextlib.contextmanager
def sleeping(nodes: int) -> Iterator[list[str]]:
    """Containers that sleep on a network of their own: their identifiers."""
    name = f"gradwire-bench-{uuid.uuid4().hex[:8]}"
    docker("network", "create", "--internal", name)
    found: list[str] = []
    try:
        for _ in range(nodes):
            command = ("run", "--detach", "--init", "--network", name, "--entrypoint", "sleep")
            found.append(docker(*command, IMAGE, "3600"))
        yield found
    finally:
        if found:
            docker("rm", "--force", *found)
        docker("network", "rm", name)


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def engine_cpu_s() -> float:
    """CPU time of dockerd and containerd so far."""
    used = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text().strip() in ENGINE:
                used += cpu_s(int(folder.name))
    return used


def watch(containers: Sequence[str], seconds: float) -> None:
    """As the collector of a run does."""
    docker = client()
    by_rank = {rank: docker.containers.get(name) for rank, name in enumerate(containers)}
    processes = {rank: each.attrs["State"]["Pid"] for rank, each in by_rank.items()}
    names = [node_name(rank) for rank in by_rank]
    interval_s = Experiment.interval
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "samples.csv"), Path(folder, "host.csv")
        sources = counter_sources(processes, by_rank, cache(client))
        with Collector(files[0], sources, interval_s, names), HostCollector(files[1], interval_s):
            time.sleep(seconds)


def engine_share(seconds: float, process: int | None = None) -> tuple[float, float]:
    """Of a core, in so many seconds from now: the engine's, and one process's."""
    engine, own = engine_cpu_s(), cpu_s(process) if process else 0.0
    time.sleep(seconds)
    passed = cpu_s(process) - own if process else 0.0
    return (engine_cpu_s() - engine) / seconds, passed / seconds


def of_containers(nodes: int, seconds: int) -> tuple[float, float]:
    """CPU shares of our collector and of `docker stats`, each with the engine's work for it."""
    with sleeping(nodes) as containers:
        time.sleep(2)
        idle, _ = engine_share(seconds / 2)
        ours = multiprocessing.get_context("fork").Process(
            target=watch, args=(containers, seconds + 4)
        )
        ours.start()
        assert ours.pid is not None
        time.sleep(3)
        watched = sum(engine_share(seconds, ours.pid)) - idle
        ours.join()
        stats = subprocess.Popen(["docker", "stats", *containers], stdout=subprocess.DEVNULL)
        time.sleep(3)
        plain = sum(engine_share(seconds, stats.pid)) - idle
        stats.kill()
        stats.wait()
    return watched, plain


def of_a_run(nodes: int, seconds: int) -> float:
    """CPU share of ./measure.sh while namespaces train; the nodes are other processes."""
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as output:
        sizes = ("--train-size", str(64 * nodes), "--batch-size", "16", "--epochs", "2000")
        flags = ("--engine", "netns", "--workers", str(nodes), *sizes, "--output", output)
        command = [str(PROJECT / "measure.sh"), *flags, "--quiet", "--no-report"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        await_step(Path(output))
        found = share(process.pid, seconds, lambda: None)
        process.send_signal(signal.SIGINT)
        process.communicate()
        return found


def run(args: argparse.Namespace) -> Table:
    rows = []
    cores = os.cpu_count() or 1
    for nodes in args.nodes:
        watched, plain = of_containers(nodes, args.seconds)
        own = of_a_run(nodes, args.seconds)
        rows.append(
            (
                str(nodes),
                percent_text(watched),
                percent_text(plain),
                f"{plain / watched:.0f} x",
                percent_text(own),
                percent_text(own / cores),
            )
        )
    columns = (
        *("nodes", "collector, of a core", "docker stats, of a core", "docker stats over ours"),
        *("./measure.sh with namespaces, of a core", f"of {cores} cores"),
    )
    return Table(f"{args.seconds} s each", columns, rows)
