"""What every engine gives: N nodes on one switch that carry out a list of runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cluster.records import Counters
from cluster.run_folder import RunFolder
from cluster.spec import Experiment


class EngineUnavailable(Exception):
    """This engine cannot work on this machine; the message is one line and says the way out.

    `reason` is the short form, without the way out.
    """

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or message


class EngineError(Exception):
    """The cluster could not be raised or fell over: a failed run, exit code 1."""


@dataclass(frozen=True)
class ClusterPlan:
    """A cluster and the runs it will carry out, in order. Runs share it when they fit it."""

    name: str
    workers: int
    cpus: float | None
    runs: tuple[RunFolder, ...]
    data_folder: Path


@dataclass(frozen=True)
class CounterSource:
    """One independent way to read every node's counters: rank -> counters."""

    name: str
    per_interval: float
    """1 for the Docker API, 10 for the kernel."""
    read: Callable[[], dict[int, Counters]]


class Engine(Protocol):
    """An engine that is ready to raise clusters for one session."""

    @property
    def about(self) -> dict[str, Any]:
        """For environment.json."""

    def prepare_run(self, experiment: Experiment, run: RunFolder) -> None:
        """Add the engine's own files to a new run folder."""

    def cluster(self, plan: ClusterPlan) -> Cluster: ...

    def remove_leftovers(self, session: str) -> None:
        """Whatever an interruption at an odd moment may have left of a session."""


class Cluster(Protocol):
    """A context manager: entering raises the nodes, leaving always removes them."""

    def __enter__(self) -> Cluster: ...
    def __exit__(self, *exc: object) -> None: ...

    @property
    def sources(self) -> tuple[CounterSource, ...]: ...

    def exited(self) -> dict[int, int]:
        """Nodes that are gone, with their exit codes (128 + signal where one ended them)."""

    def last_words(self, rank: int) -> str:
        """What the engine itself knows of a node's end, beyond the run's own log."""
