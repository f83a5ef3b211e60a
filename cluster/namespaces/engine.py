"""Nodes made of Linux namespaces: no daemon, no image, no root. The host's half.

The host starts one process inside fresh namespaces (cluster/namespaces/nodes.py); all nodes live below
it. When that process ends, for whatever reason, the kernel removes every namespace, veth and process
with it; only control groups, where CPUs or memory are limited, are ours to remove. It ends when its standard
input closes, hence also when the host is killed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cluster import PROJECT, interruption
from cluster.engine import (
    ClusterPlan,
    CounterSource,
    EngineError,
    EngineUnavailable,
    LinksNotTrue,
    check_cores,
    check_memory,
)
from cluster.links import kernel_support as kernel_links
from cluster.namespaces import cgroups as limits
from cluster.spec.experiment import Experiment
from cluster.spec.links import Link
from cluster.spec.records import Counters, parse_net_dev
from cluster.spec.run_folder import RunFolder, node_name

START_TIMEOUT_S = 120
STATISTICS_TIMEOUT_S = 20
CAP_SYS_ADMIN = 21


def check(cpus: float | None = None, total_memory: int | None = None) -> str:
    """How namespaces work here; EngineUnavailable, with the way out, where they cannot be used."""
    if not sys.platform.startswith("linux"):
        raise EngineUnavailable("engine netns needs Linux; use --engine docker here")
    for tool, package in (("unshare", "util-linux"), ("ip", "iproute2"), ("tc", "iproute2")):
        if _find(tool) is None:
            raise EngineUnavailable(
                f"engine netns needs the command '{tool}': install the package {package}"
            )
    trial = subprocess.run([*_unshare(), "true"], capture_output=True, text=True)
    if trial.returncode != 0:
        raise EngineUnavailable(
            f"engine netns needs user namespaces, and this machine forbids them"
            f" ({trial.stderr.strip()}): allow them with 'sysctl -w"
            f" kernel.unprivileged_userns_clone=1' or 'sysctl -w"
            f" kernel.apparmor_restrict_unprivileged_userns=0', run as root, or use --engine docker"
        )
    if importlib.util.find_spec("torch") is None:
        raise EngineUnavailable(
            f"engine netns needs torch in this Python ({sys.executable}): start with ./measure.sh,"
            " which installs it, or use --engine docker"
        )
    check_cores(cpus, os.cpu_count() or 1)
    check_memory(total_memory, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    asked = {"cpu": cpus, "memory": total_memory}
    limits.check(*(controller for controller, limit in asked.items() if limit is not None))
    return "as root" if _may_make_namespaces() else "unprivileged, in a user namespace"


def link_modules() -> set[str]:
    return kernel_links.try_modules(_unshare())


class NetnsEngine:
    """See cluster.engine.Engine. Namespaces need no files and leave nothing behind."""

    @property
    def about(self) -> dict[str, Any]:
        return {
            "name": "netns",
            "privileged": _may_make_namespaces(),
            "cpu_limits": _limits_by("cpu"),
            "memory_limits": _limits_by("memory"),
        }

    def check_links(self, links: Iterable[Link]) -> None:
        kernel_links.check(links, link_modules())

    def prepare_run(self, experiment: Experiment, run: RunFolder, data_folder: Path) -> None:
        pass

    def cluster(self, plan: ClusterPlan) -> NetnsCluster:
        return NetnsCluster(plan)

    def remove_leftovers(self, session: str) -> None:
        pass


class NetnsCluster:
    """See cluster.engine.Cluster."""

    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        self.process: subprocess.Popen[str] | None = None
        self.links: list[dict[str, Any]] = []
        self.announcement = None
        self._groups: limits.Groups | None = None
        self._complaint: str | None = None
        self._statistics: queue.Queue[list[dict[str, Any]]] = queue.Queue()
        self._exits: dict[int, int] = {}
        self._heard = threading.Event()
        self._is_ready = False
        self._reader: threading.Thread | None = None

    @property
    def sources(self) -> tuple[CounterSource, ...]:
        return (CounterSource("kernel", 10, self.read_switch),)

    def __enter__(self) -> NetnsCluster:
        plan = self.plan
        document: dict[str, Any] = {
            "nodes": plan.nodes,
            "entry": "workloads.worker",
            "imports": plan.imports,
            "logs": [str(plan.runs[0].log(rank)) for rank in range(plan.nodes)],
            "cgroups": {},
            "links": {rank: str(link) for rank, link in plan.links.items()},
            "environment": {
                "MASTER_ADDR": node_name(0),
                "MASTER_PORT": "29500",
                "GRADWIRE_RUNS": "\n".join(str(run.path) for run in plan.runs),
                "GRADWIRE_RECORD": "1",
                "GRADWIRE_DATA": str(plan.data_folder),
                "OMP_NUM_THREADS": "1",
            },
        }
        try:
            if plan.cpus or plan.memory_bytes is not None:
                shares = (
                    {}
                    if plan.memory_bytes is None
                    else dict.fromkeys(range(plan.nodes), plan.memory_bytes)
                )
                self._groups = limits.create(plan.name, plan.cpus, shares)
                document["cgroups"] = self._groups.joins
            with interruption.held_back():
                self.process = subprocess.Popen(
                    [
                        *_unshare(),
                        sys.executable,
                        "-m",
                        "cluster.namespaces.nodes",
                        json.dumps(document),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    cwd=PROJECT,
                    start_new_session=True,  # Ctrl-C reaches the host, which then stops the nodes
                )
            self._reader = threading.Thread(target=self._listen, args=(self.process,), daemon=True)
            self._reader.start()
            self._await_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _await_ready(self) -> None:
        process = self.process
        assert process is not None
        if not self._heard.wait(START_TIMEOUT_S):
            raise EngineError("the nodes did not start: no answer in time")
        if self._is_ready:
            return
        process.wait()  # its output has ended, so it is about to
        if self._complaint is not None:
            raise LinksNotTrue(self._complaint, self.links)
        assert process.stderr is not None
        raise EngineError(f"the nodes did not start: {process.stderr.read().strip()}")

    def __exit__(self, *exc: object) -> None:
        if self.process is not None:
            self._end(self.process)
            self.process = None
        if self._groups is not None:
            self._groups.remove()

    def _end(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()  # --kill-child: takes all nodes with it
            process.wait()
        if self._reader is not None and self._reader.ident is not None:  # it was started
            self._reader.join()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def exited(self) -> dict[int, int]:
        if self.process is not None and self.process.poll() is not None:
            raise EngineError(
                f"the process that holds all nodes ended with code {self.process.returncode}"
            )
        return dict(self._exits)

    def link_statistics(self) -> list[dict[str, Any]]:
        if not self.plan.links or self.process is None or self.process.poll() is not None:
            return []
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("statistics\n")
            self.process.stdin.flush()
            return self._statistics.get(timeout=STATISTICS_TIMEOUT_S)
        except (OSError, queue.Empty):
            return []

    def out_of_memory(self) -> set[int]:
        return self._groups.out_of_memory() if self._groups is not None else set()

    def last_words(self, rank: int) -> str:
        return ""

    def read_switch(self) -> dict[int, Counters]:
        """The switch's own ports: what a port received is what its node sent."""
        if self.process is None:
            return {}
        try:
            with open(f"/proc/{self.process.pid}/net/dev", encoding="ascii") as file:
                ports = parse_net_dev(file.read())
        except OSError:
            return {}
        readings = {}
        for rank in range(self.plan.nodes):
            port = ports.get(node_name(rank))
            if port is not None:
                readings[rank] = port.swapped()
        return readings

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            message = json.loads(line)
            if "ready" in message:
                self._is_ready = True
                self._heard.set()
            elif "links" in message:
                self.links, self._complaint = message["links"], message["complaint"]
            elif "statistics" in message:
                self._statistics.put(message["statistics"])
            else:
                self._exits[message["rank"]] = message["code"]
        self._heard.set()  # the end of the stream: let a waiter see that the process is gone


def _limits_by(controller: str) -> str | None:
    try:
        return limits.check(controller)
    except EngineUnavailable:
        return None


def _unshare() -> list[str]:
    """The namespaces that all nodes share; a user namespace gives the rights where root is not."""
    command = [_find("unshare") or "unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"]
    if not _may_make_namespaces():
        command += ["--user", "--map-root-user"]
    return [*command, "--kill-child"]


def _may_make_namespaces() -> bool:
    """Root with CAP_SYS_ADMIN; root in a container often is without."""
    status = Path("/proc/self/status").read_text()
    capabilities = int(status.partition("CapEff:\t")[2].split()[0], 16)
    return bool(capabilities >> CAP_SYS_ADMIN & 1)


def _find(tool: str) -> str | None:
    """Like `which`, also where an ordinary user's PATH has no sbin."""
    return shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin")
