"""Hosts of a cluster in fresh namespaces: each has its own eth0 and its own name, host0, host1, ...

The last one is where people log in. All see the same files, as on a cluster with a shared disk.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.namespaces import network
from cluster.spec.documents.run_folder import node_name
from tests.measuring import COMMAND, PROJECT

TIMEOUT_S = 120


def host_name(rank: int) -> str:
    return f"host{rank}"


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
        self.namespaces = network.create_namespaces(self.count)
        network.build_network(self.count, self.namespaces)
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

    def measure(self, flags: list[str], variables: Mapping[str, str], kill: int | None) -> int:
        """./measure.sh on the login host; its exit code. Kills a host after its first epoch."""
        if kill is not None:
            threading.Thread(target=self._kill_in_training, args=(kill,), daemon=True).start()
        return subprocess.run(
            [*COMMAND, *flags],
            cwd=PROJECT,
            env={**os.environ, **variables},
            **self.on(self.login),
        ).returncode

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

    def _kill_in_training(self, rank: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            logs = self.folder.glob(f"runs/*/*/events/{node_name(rank)}.jsonl")
            if any('"epoch"' in log.read_text() for log in logs):
                self.kill(rank)
                return
            time.sleep(0.05)

    def kill(self, rank: int) -> None:
        """End every process of a host at once, as a power cut does."""
        own = os.fstat(self.namespaces[rank]).st_ino
        print(f"lab: killed {host_name(rank)} {time.time():.1f}", file=sys.stderr, flush=True)
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "ns" / "net").stat().st_ino == own:
                    os.kill(int(process.name), signal.SIGKILL)
