"""What can happen to the nodes of a live run, from outside: on namespaces and on containers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cluster.containers.compose_file import SESSION_LABEL
from cluster.containers.pause import pause
from cluster.containers.projects import SERVICE_LABEL, client
from cluster.host.cgroups import ROOT
from tests.measuring import gone, owned_processes, processes_of, worker_processes

HOG = """
import mmap, sys
from pathlib import Path
group, held = Path(sys.argv[1]), []
(group / "cgroup.procs").write_text("0")
for _ in range(400):
    file = group / "memory.oom_control"
    file = file if file.exists() else group / "memory.events"
    counts = dict(line.split() for line in file.read_text().splitlines())
    if int(counts["oom_kill"]) > 0:
        break
    held.append(mmap.mmap(-1, 2**22))
    held[-1].write(bytes(2**22))
"""
"""Takes the memory of a control group, until the kernel has ended a process of the group."""


class NetnsNodes:
    def __init__(self, output: Path) -> None:
        self._output = output
        self._training = worker_processes(output)
        self._nodes = [parent_of(process) for process in self._training]
        self._supervisor = parent_of(self._nodes[0])

    def kill_training(self, rank: int) -> None:
        os.kill(self._training[rank], signal.SIGKILL)

    def kill_node(self, rank: int) -> None:
        os.kill(self._nodes[rank], signal.SIGKILL)

    def stop_training(self, rank: int) -> None:
        os.kill(self._training[rank], signal.SIGSTOP)

    def stop_node(self, rank: int) -> None:
        for process in (self._nodes[rank], self._training[rank]):
            os.kill(process, signal.SIGSTOP)

    def resume_node(self, rank: int) -> None:
        for process in (self._nodes[rank], self._training[rank]):
            os.kill(process, signal.SIGCONT)

    def set_link_down(self, rank: int) -> None:
        self._ip("link", "set", f"node{rank}", "down")

    def set_link_up(self, rank: int) -> None:
        self._ip("link", "set", f"node{rank}", "up")

    def drop_packets(self, rank: int) -> None:
        """Its port leaves the switch: the carrier stays."""
        self._ip("link", "set", f"node{rank}", "nomaster")

    def exhaust_memory(self, rank: int) -> None:
        groups = ROOT.glob(f"**/gradwire-{next(self._output.iterdir()).name}-*/node{rank}")
        exhaust(groups, self._training[rank])

    def leftovers(self) -> list[str]:
        return [] if gone(lambda: processes_of(self._output)) else ["processes"]

    def _ip(self, *command: str) -> None:
        run(["nsenter", "--target", str(self._supervisor), "--net", "ip", *command])


class DockerNodes:
    def __init__(self, output: Path) -> None:
        self._session = next(output.iterdir()).name
        label = {"label": f"{SESSION_LABEL}={self._session}"}
        found = {c.labels[SERVICE_LABEL]: c for c in client().containers.list(filters=label)}
        count = sum(name.startswith("node") for name in found)
        self._containers = [found[f"node{rank}"] for rank in range(count)]

    def kill_training(self, rank: int) -> None:
        os.kill(self._processes(rank)[-1], signal.SIGKILL)

    def kill_node(self, rank: int) -> None:
        self._containers[rank].kill()

    def stop_training(self, rank: int) -> None:
        os.kill(self._processes(rank)[-1], signal.SIGSTOP)

    def stop_node(self, rank: int) -> None:
        for process in self._processes(rank):
            os.kill(process, signal.SIGSTOP)

    def pause(self, rank: int) -> None:
        pause(self._containers[rank])

    def unpause(self, rank: int) -> None:
        self._containers[rank].unpause()

    def set_link_down(self, rank: int) -> None:
        run(["ip", "link", "set", self._port(rank), "down"])

    def unplug(self, rank: int) -> None:
        (network,) = self._containers[rank].attrs["NetworkSettings"]["Networks"]
        client().networks.get(network).disconnect(self._containers[rank].id)

    def drop_packets(self, rank: int) -> None:
        """Its port leaves the bridge: the carrier stays."""
        run(["ip", "link", "set", self._port(rank), "nomaster"])

    def exhaust_memory(self, rank: int) -> None:
        groups = ROOT.glob(f"**/{self._containers[rank].id}")
        exhaust(groups, self._processes(rank)[-1])

    def leftovers(self) -> list[str]:
        label = {"label": f"{SESSION_LABEL}={self._session}"}
        docker = client()
        found = docker.containers.list(all=True, filters=label, ignore_removed=True)
        return [item.name for item in (*found, *docker.networks.list(filters=label))]

    def _processes(self, rank: int) -> list[int]:
        """The container's first process, the node's, and the training process."""
        chain = [int(self._containers[rank].attrs["State"]["Pid"])]
        while children := children_of(chain[-1]):
            chain.append(children[0])
        return chain

    def _port(self, rank: int) -> str:
        """The host's end of a container's link."""
        process = str(self._processes(rank)[0])
        command = ["nsenter", "--target", process, "--net", "ip", "-o", "link", "show", "eth0"]
        index = run(command).partition("@if")[2].partition(":")[0]
        ports = Path("/sys/class/net").iterdir()
        return next(port.name for port in ports if (port / "ifindex").read_text().strip() == index)


def await_process(measure: int, name: str) -> int:
    """Wait until a measure has started a process of this name; its number."""
    while True:
        for process in owned_processes(measure):
            with contextlib.suppress(OSError):  # it has just ended
                if Path(f"/proc/{process}/comm").read_text().strip() == name:
                    return process
        time.sleep(0.05)


def await_container(output: Path, service: str) -> Any:
    """Wait until the container of a service of a session below `output` runs."""
    docker = client()
    while True:
        for session in output.iterdir():
            label = [f"{SERVICE_LABEL}={service}", f"{SESSION_LABEL}={session.name}"]
            for container in docker.containers.list(filters={"label": label}):
                return container
        time.sleep(0.05)


def exhaust(groups: Iterable[Path], training: int) -> None:
    """Take the memory of a node's control group; the kernel then ends the training process."""
    limits = ("memory.limit_in_bytes", "memory.max")
    group = next(group for group in groups if any((group / name).exists() for name in limits))
    Path(f"/proc/{training}/oom_score_adj").write_text("1000")
    subprocess.run([sys.executable, "-c", HOG, str(group)])


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(process: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def run(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
