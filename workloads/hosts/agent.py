"""The agent on a host: starts the worker once, hands it its runs, sends what it writes.

It is told of a run by `execute`, and sends to the driver by a function of the launcher: over HTTP
(remote_agent.py), or to an actor (ray.py). Standard library only: torch is in the worker.
"""

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cluster.spec.documents.heartbeat import read_heartbeat
from cluster.spec.documents.run_folder import RunFolder, node_name, write_at_once
from cluster.spec.experiment import Experiment
from workloads.data.tokens import is_complete
from workloads.hosts.sent_log import take_over

Send = Callable[[str, bytes], None]
"""Sends something of a kind: events, heartbeat, log, model. ConnectionError when it cannot."""
BEAT_S = 2.0
"""Between two heartbeats that are sent: some 500 bytes each."""
POLL_S = 0.1
END_S = 3.0
LOG_BYTES = 1 << 16
PIECE_BYTES = 1 << 23
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Membership:
    """What a host is among the others."""

    rank: int
    runs: int
    """How many runs there are for all hosts, at most."""
    master_addr: str
    """Of rank 0's host, to which the others connect."""
    master_port: int


@dataclass(frozen=True)
class Ending:
    """How a host's part of a run ended."""

    code: int
    """The worker's exit code; its own events say more."""
    problem: str = ""
    """What kept the worker from beginning."""


class AgentError(Exception):
    """Why this host cannot go on, in one line."""


@dataclass
class Agent:
    """One worker process for all runs; `close` ends it."""

    member: Membership
    folder: Path
    """Private to this agent, and removed by whoever made it."""
    send: Send
    code: str
    """From where the worker imports gradwire."""
    data: Path
    """With the runs' data."""
    _worker: subprocess.Popen[bytes] | None = None
    _events: socket.socket | None = None
    _done: int = 0
    _folders: list[RunFolder] = field(default_factory=list)

    def execute(self, spec: str) -> int:
        """One run, whose data are there, until this host's part has ended; its exit code."""
        experiment = Experiment.parse(spec)
        if self.member.rank >= experiment.nodes:
            return 0
        if not is_complete(experiment, self.data):
            raise AgentError(f"the data of {experiment.dataset} did not arrive completely")
        if self._worker is not None and self._worker.poll() is not None:
            self.close()  # it failed in a run: another one has another
        if self._worker is None:
            self._start()
        run = self._folders[self._done]
        self._done += 1
        write_at_once(run.spec, spec)
        code = self._follow(run)
        self._send_log(run)
        if code == 0 and self.member.rank == 0 and run.model.exists():
            send_model(run.model, self.send)
        return code

    def close(self) -> None:
        if self._worker is not None:
            self._worker.send_signal(signal.SIGTERM)  # it ends its own child
            try:
                self._worker.wait(END_S)
            except subprocess.TimeoutExpired:
                self._worker.kill()
                self._worker.wait()
            self._worker = None
        if self._events is not None:
            self._events.close()

    def _start(self) -> None:
        """A worker for the runs that are left."""
        if not self._folders:
            place = self.folder / "runs"
            self._folders = [RunFolder(place / f"{k:03d}") for k in range(self.member.runs)]
            for run in self._folders:
                run.create()
        left = self._folders[self._done :]
        self._events, theirs = socket.socketpair()
        path = os.environ.get("PYTHONPATH")
        with theirs:
            self._worker = subprocess.Popen(
                [sys.executable, "-P", "-m", "workloads.worker"],
                cwd=self.folder,
                env={
                    **os.environ,
                    "PYTHONPATH": f"{self.code}:{path}" if path else self.code,
                    "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
                    "RANK": str(self.member.rank),
                    "MASTER_ADDR": self.member.master_addr,
                    "MASTER_PORT": str(self.member.master_port),
                    "GRADWIRE_RUNS": "\n".join(str(run.path) for run in left),
                    "GRADWIRE_RECORD": "1",
                    "GRADWIRE_DATA": str(self.data),
                    "GRADWIRE_AGENT": str(theirs.fileno()),
                },
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                preexec_fn=_end_with_parent,
            )

    def _follow(self, run: RunFolder) -> int:
        """Send the worker's events and heartbeats until its run has ended; the exit code."""
        assert self._worker is not None
        assert self._events is not None
        path, sent_at = run.heartbeat_of(node_name(self.member.rank)), 0.0
        while True:
            readable, _, _ = select.select([self._events], [], [], POLL_S)
            if readable:
                take_over(self._events, lambda body: self.send("events", body))
                continue
            beat = read_heartbeat(path)
            ended = beat is not None and beat.exit_code is not None
            if beat is not None and (ended or time.monotonic() - sent_at >= BEAT_S):
                sent_at = time.monotonic()
                self.send("heartbeat", path.read_bytes().rstrip())
            if beat is not None and beat.exit_code is not None:
                return beat.exit_code
            if (code := self._worker.poll()) is not None:
                return code if code >= 0 else 128 - code

    def _send_log(self, run: RunFolder) -> None:
        log = run.log_of(node_name(self.member.rank))
        if log.exists():
            self.send("log", log.read_bytes()[-LOG_BYTES:])


def _end_with_parent() -> None:
    """A worker ends with its agent, even one that is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def send_model(model: Path, send: Send) -> None:
    with model.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            send("model", piece)


def free_port() -> int:
    """A port of this host that is free now."""
    with socket.socket() as trial:
        trial.bind(("", 0))
        return int(trial.getsockname()[1])
