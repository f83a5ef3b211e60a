"""The seam: what a host launcher does. Standard library only."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.hosts import HostOptions
from workloads.hosts.agent import Ending
from workloads.hosts.fit import HostFacts

POLL_S = 0.1
ASK_S = 1.0
TELL_S = 15.0
EVENTS_S = 20.0
"""For whoever watches the events to find the cause of a failure."""


class HostsError(Exception):
    """Why the hosts cannot execute the runs, in one line."""


class HostsLost(Exception):
    """A host is gone, or the launcher's own job has ended, while a run was on: one line."""


class HostGone(HostsLost):
    """One host is gone: others can go on with runs that do not need it."""


@dataclass(frozen=True)
class Request:
    """What the hosts are for."""

    nodes: int
    """Hosts to find, one worker each; the most of use where runs are spread."""
    spread: bool
    """Each run has one process, of virtual workers, and any host will do: runs are spread over as
    many hosts as there are, several at a time."""
    options: HostOptions
    runs: tuple[RunFolder, ...]
    data: Path
    log: Path
    """Where the launcher's own output goes."""
    say: Callable[[str], None]
    """For the person who waits."""


class Patience:
    """How long a person has waited for hosts, and still does; told every few seconds."""

    def __init__(self, request: Request) -> None:
        self.limit_s, self._say = request.options.patience_s, request.say
        self._began = self._told = time.monotonic()

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._began > self.limit_s

    @property
    def pause_s(self) -> float:
        """Until one looks again."""
        return min(ASK_S, max(POLL_S, self.limit_s / 10))

    def tell(self, what: str) -> None:
        now = time.monotonic()
        if now - self._told > TELL_S:
            self._told = now
            self._say(f"{what}: {now - self._began:.0f} s")

    def renew(self) -> None:
        """Something has come: the time begins again."""
        self._began = time.monotonic()


def named(hosts: Sequence[HostFacts], request: Request) -> list[str]:
    """By rank, the node and its host; only the host, where each run is on another one."""
    if request.spread:
        return [facts["host"] for facts in hosts]
    return [f"node{rank} on {facts['host']}" for rank, facts in enumerate(hosts)]


def judge(endings: Sequence[Ending], hosts: Sequence[str]) -> None:
    """HostsLost for a host whose part of a run did not end well, by rank.

    A worker that failed has said why in its events: whoever watches them knows best, and comes
    first.
    """
    for ending, host in zip(endings, hosts, strict=False):
        if ending.problem:
            raise HostsLost(f"{host}: {ending.problem}")
    failed = [
        (ending.code, host) for ending, host in zip(endings, hosts, strict=False) if ending.code
    ]
    if failed:
        time.sleep(EVENTS_S)
        code, host = failed[0]
        raise HostsLost(f"{host}: its worker ended with exit code {code}")


class HostLauncher(Protocol):
    """Starts the worker once on each host with rank, size and rendezvous, brings events/ back.

    A context manager; leaving it ends what was started on the hosts. `close` does so, too, from
    another thread while a run is on.
    """

    packages: tuple[str, ...]
    """Their versions must be the same on all hosts."""
    chosen_by: str
    """How the hosts' Python is chosen, for the person whose versions differ."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def close(self) -> None: ...

    def find_hosts(self) -> list[HostFacts]:
        """The hosts of ranks 0, 1, ...; HostsError where there are not enough in time."""

    def execute(self, run: RunFolder, data: Path, host: int | None = None) -> None:
        """Until all of the run's workers have ended; HostsLost where one is gone.

        Of runs that are spread, on one host alone, by its place among those found; several threads
        do so at the same time, one for each host.
        """
