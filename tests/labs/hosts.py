"""Hosts of a cluster in fresh namespaces: each has its own eth0 and its own name, host0, host1, ...

The last one is where people log in. All see the same files, as on a cluster with a shared disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.namespaces import network
from cluster.spec.documents.run_folder import node_name
from tests.measuring import COMMAND, PROJECT

TIMEOUT_S = 300
AGENTS_S = 40
VARIABLE = re.compile("[A-Z_]+=")


def host_name(rank: int) -> str:
    return f"host{rank}"


@dataclass(frozen=True)
class Plan:
    """What a lab does, from its command line: HOSTS FOLDER PLAN, the last as JSON."""

    hosts: int
    """That compute; there is one more, where people log in."""
    folder: Path
    measures: list[dict[str, list[str]]]
    """By name, the flags of every call of ./measure.sh, after VARIABLE=VALUE. Those of a group run
    at the same time, the groups one after the other."""
    kill: int | None
    """Rank of the host that is killed when it has trained for an epoch of the last measure."""
    first: str | None = None
    """A line of shell for the login host, before; its output is FOLDER/first.log."""

    @classmethod
    def parse(cls, hosts: str, folder: str, plan: str) -> Plan:
        return cls(int(hosts), Path(folder), **json.loads(plan))


@dataclass
class Hosts:
    """A context manager: leaving it ends the daemons that were started."""

    count: int
    folder: Path
    """For the daemons' logs and state."""
    namespaces: list[int] = field(init=False)
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Hosts:
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        network.write_hosts_file(self.count)
        with Path("/etc/hosts").open("a") as names:
            for rank in range(self.count):
                names.write(f"{network.address(rank)} {host_name(rank)}\n")
        self.namespaces = network.create_namespaces(self.count)
        network.build_network(self.count, self.namespaces)
        for namespace in self.namespaces:
            with network.inside(namespace):  # by which programs find their own address
                network.ip_batch("route add default dev eth0")
        return self

    def __exit__(self, *exc: object) -> None:
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()

    @property
    def login(self) -> int:
        return self.count - 1

    def start(self, rank: int, name: str, command: list[str], **variables: str) -> None:
        """A daemon on a host; its output is FOLDER/NAME.log."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.daemons.append(
                subprocess.Popen(
                    command,
                    env={**os.environ, **variables},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    **self.on(rank),
                )
            )

    def on(self, rank: int) -> dict[str, Any]:
        """Popen arguments that start a program on a host."""

        def enter() -> None:
            network.enter(self.namespaces[rank])
            network.check(network.libc.unshare(network.CLONE_NEWUTS), "unshare")
            socket.sethostname(host_name(rank))

        return {"preexec_fn": enter, "pass_fds": (self.namespaces[rank],)}

    def measure(self, plan: Plan, flags: list[str], variables: Mapping[str, str]) -> None:
        """./measure.sh on the login host, for every list of flags of the plan.

        FOLDER/NAME.out and NAME.err are what it printed, NAME.code its exit code.
        """
        if plan.kill is not None:
            logs = f"runs-{list(plan.measures[-1])[-1]}/*/*/events/{node_name(plan.kill)}.jsonl"
            how = (plan.kill, logs)
            threading.Thread(target=self._kill_in_training, args=how, daemon=True).start()
        if plan.first is not None:
            self.start(self.login, "first", ["bash", "-c", plan.first], **variables)
            self.daemons.pop().wait()
        for group in plan.measures:
            running = {}
            for name, own in group.items():
                output = ["--json", "--no-report", "--output", str(self.folder / f"runs-{name}")]
                running[name] = self._begin(name, [*flags, *own, *output], variables)
            for name, process in running.items():
                code = process.wait()
                (self.folder / f"{name}.code").write_text(str(code))
        self.await_agents()

    def _begin(
        self, name: str, flags: list[str], variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        own = dict(flag.split("=", 1) for flag in flags if VARIABLE.match(flag))
        with (
            (self.folder / f"{name}.out").open("wb") as out,
            (self.folder / f"{name}.err").open("wb") as err,
        ):
            return subprocess.Popen(
                [*COMMAND, *(flag for flag in flags if not VARIABLE.match(flag))],
                cwd=PROJECT,
                env={**os.environ, **variables, **own},
                stdout=out,
                stderr=err,
                **self.on(self.login),
            )

    def await_agents(self) -> None:
        """Agents that survived remove their folders: this lab's end would kill them before."""
        deadline = time.monotonic() + AGENTS_S
        while len(list(Path(tempfile.gettempdir()).glob("gradwire-????????"))) > 1:
            if time.monotonic() > deadline:
                return  # the test tells what is left
            time.sleep(0.1)

    def await_port(self, rank: int, port: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        with network.inside(self.namespaces[self.login]):
            while True:
                try:
                    socket.create_connection((network.address(rank), port), timeout=1).close()
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
                else:
                    return

    def await_word(self, name: str, word: str) -> None:
        """Until a daemon's output has it."""
        deadline = time.monotonic() + TIMEOUT_S
        log = self.folder / f"{name}.log"
        while word not in log.read_text():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{log} has no {word!r}: {log.read_text()}")
            time.sleep(0.1)

    def _kill_in_training(self, rank: int, pattern: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            logs = self.folder.glob(pattern)
            if any('"event":"epoch"' in log.read_text() for log in logs):
                self.kill(rank)
                return
            time.sleep(0.05)

    def kill(self, rank: int) -> None:
        """End every process of a host at once, as a power cut does."""
        own = os.fstat(self.namespaces[rank]).st_ino
        (self.folder / "killed").write_text(str(time.time()))
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "ns" / "net").stat().st_ino == own:
                    os.kill(int(process.name), signal.SIGKILL)
