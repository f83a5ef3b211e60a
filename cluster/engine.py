"""Engines: what nodes are made of. The one table of engines, and what every engine gives.

All give the same: N nodes on one switch that carry out a list of runs. A new engine is a package
with an engine.py (`check` and `open_engine`, as in EngineModule) and one row of ENGINES.
"""

import importlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self, cast

from cluster.spec.documents.codec import Options
from cluster.spec.documents.links import LinkStatistics, MeasuredLink
from cluster.spec.documents.records import Counters
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.errors import SpecError, one_of
from cluster.spec.experiment import EXISTING, PROCESSES, Experiment
from cluster.spec.faults.checks import CONTINUE
from cluster.spec.hosts import HostOptions
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.links import Link
from cluster.spec.program import ISOLATED
from cluster.spec.quantities import write_memory
from cluster.spec.sites import Pair


class EngineUnavailable(Exception):
    """This engine cannot work on this machine; the message is one line and says what to do.

    `reason` is the short form, without what to do.
    """

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or message


class EngineError(Exception):
    """The cluster could not be started or failed: a failed run, exit code 1."""


class LinksOffTarget(EngineError):
    """A link could not be shaped, or is off its target. Carries what was found of all links."""

    def __init__(self, message: str, links: list[MeasuredLink]) -> None:
        super().__init__(message)
        self.links = links


def check_limits(
    experiments: Sequence[Experiment], cores: int, memory_bytes: int
) -> tuple[float | None, int | None]:
    """The most CPU cores of one node and the most memory of a cluster, where they are limited.

    SpecError for a limit above what the machine has: it would have no effect.
    """
    wanted = (c for e in experiments for c in (*e.host_limits.values(), *e.fault_cores.values()))
    cpus = max(wanted, default=None)
    total_bytes = max((e.total_memory_bytes or 0 for e in experiments), default=0) or None
    if cpus is not None and cpus > cores:
        raise SpecError(f"{cpus:g} CPU cores for a node are more than this machine's {cores}")
    if total_bytes is not None and total_bytes > memory_bytes:
        raise SpecError(
            f"total_memory {write_memory(total_bytes)} is more than this machine's"
            f" {memory_bytes / 2**30:.1f} GiB: lower it, or use --total-memory none"
        )
    return cpus, total_bytes


def largest_launcher(experiments: Sequence[Experiment]) -> str:
    """The last one in the table: its image contains the packages of those before it."""
    return max((e.launcher for e in experiments), key=list(LAUNCHERS).index)


def needs_containers(experiments: Sequence[Experiment]) -> str | None:
    """The first option that only containers can serve."""
    for experiment in experiments:
        if experiment.auxiliary_services:
            return f"launcher {experiment.launcher}"
        if experiment.network != ISOLATED:
            return f"network {experiment.network}"
    return "gpu" if any(experiment.gpu for experiment in experiments) else None


LIMITS = (
    *(
        "link",
        "bottleneck",
        "sites",
        "between",
        "inside",
        "link_trace",
        "background",
        "straggler",
        "cpus",
        "total_memory",
    ),
    *("fault", "storm"),
)
"""Options of nodes that are made for the run."""
SIMULATED = ("link", "bottleneck", "sites", "between", "inside")
"""Of these, what virtual workers' times are predicted for: no node has it."""


def refuse_limits(experiment: Experiment, way_out: str) -> None:
    """SpecError for limits that cannot be set on existing nodes."""
    if experiment.slowdown != 1:
        raise SpecError(
            f"dilation {experiment.slowdown:g} does not apply to nodes that ./measure.sh does not"
            f" make; use --dilation 1, or {way_out}"
        )
    if experiment.on_failure == CONTINUE:
        raise SpecError(
            "on_failure continue does not apply to nodes that ./measure.sh does not make;"
            f" {way_out}"
        )
    for option in LIMITS:
        if experiment.virtual and option in SIMULATED:
            continue
        if getattr(experiment, option) is not None:
            raise SpecError(
                f"{option} does not apply to nodes that ./measure.sh does not make; {way_out}"
            )


@dataclass(frozen=True)
class ClusterPlan:
    """A cluster and the runs it will carry out, in order. Runs share it when they fit it."""

    name: str
    nodes: int
    auxiliary_services: tuple[str, ...]
    """Names of nodes that do not train; their ranks follow the others'."""
    cpus: dict[int, float]
    """CPU cores of this host by rank, where they are limited; infinite where only a fault limits
    them."""
    memory_bytes: int | None
    """Memory of each node that trains, where it is limited."""
    links: dict[int, Link]
    """Links by rank, where they are shaped."""
    runs: tuple[RunFolder, ...]
    data_folder: Path
    writers: tuple[str, ...]
    """Names of those that write events: nodes, and auxiliary services that do as well."""
    node_folders: Path
    """The folder with one for each writer, by its name: the only one that it can write to."""
    imports: tuple[str, ...] = ()
    """Slow modules that the runs will import."""
    processes: int = PROCESSES
    """Processes and threads that each node may have."""
    dilation: float = 1.0
    """Seconds on this host for each emulated second; links are shaped accordingly."""
    user_folders: tuple[str, ...] = ()
    """Of the user's own files: nodes see them read-only, at the same paths."""
    requirements: str | None = None
    """A file with packages that nodes need beside torch."""
    network: str = ISOLATED
    """What nodes reach beside each other."""
    sites: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Ranks of the nodes of each site."""
    paths: dict[Pair, Link] = field(default_factory=dict)
    """Between two sites, where they are shaped."""
    background: str | None = None
    """Background traffic between nodes, as --background has it."""
    spread: bool = False
    """Each run needs one node, and they are carried out several at a time (engine `existing`)."""


@dataclass(frozen=True)
class CounterSource:
    """One way to read every node's counters: rank -> counters."""

    name: str
    per_interval: float
    """10 for the kernel; for the Docker API at most 1, fewer with many nodes."""
    read: Callable[[], dict[int, Counters]]


class Cluster(Protocol):
    """A context manager: entering starts the nodes, leaving always removes them."""

    announcement: str | None = None
    """What to tell the user about the running cluster."""
    links: list[MeasuredLink]
    """What verifying the shaped links measured when the cluster started."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...

    @property
    def sources(self) -> tuple[CounterSource, ...]: ...

    def watch(self, run: RunFolder) -> None:
        """From now on this run of the plan is waited for."""
        return

    def link_statistics(self) -> list[LinkStatistics]:
        """What shaped links have dropped and queued so far; empty where it cannot be read."""
        return []

    def change_link(self, place: int | Pair, link: Link) -> None:
        """Give a node's shaped link, or the path between two sites, other rates, in place.

        Queues and connections stay. In emulated time, with the delay and loss that it has. Any
        thread may call it; EngineError where it cannot be done.
        """
        raise EngineError("links of this engine's nodes are not shaped")

    def send_background(self, is_on: bool) -> None:
        """Begin or end the plan's background traffic; EngineError where it cannot be done."""
        raise EngineError("there is no background traffic between nodes of this engine")

    def disturb(self, kind: str, rank: int) -> None:
        """Do to a running node what cluster.faults.deed calls kill, kill-kept, stop, resume, unplug
        or plug.

        EngineError where it cannot be done.
        """
        raise EngineError("this engine's nodes cannot be disturbed")

    def limit_cores(self, rank: int, cores: float | None) -> None:
        """Give a node another number of this host's cores, None for no limit; or EngineError."""
        raise EngineError("this engine's nodes have no CPU limit")

    def exited(self) -> dict[int, int]:
        """Exit codes of the nodes that have ended, by rank; 128 + signal where one ended them."""

    def out_of_memory(self) -> set[int]:
        """Ranks of nodes in which the kernel ended a process for lack of memory, where known."""
        return set()

    def stopped(self, silent: Collection[int]) -> dict[int, str]:
        """Ranks of nodes that do not run, and how they were stopped, as the host sees it.

        Asked for nodes without a heartbeat; others may be among them where that costs nothing.
        """
        return {}

    def exit_details(self, rank: int) -> str:
        """What the engine knows of a node's end, beyond the run's own log."""
        return ""


class Engine(Protocol):
    """An engine that is ready to start the clusters of a session.

    An engine that has no files of its own and leaves nothing behind inherits those two methods.
    """

    @property
    def about(self) -> Options:
        """What environment.json records of the engine."""

    def check_links(self, links: Iterable[Link], paths: Iterable[Link] = ()) -> None:
        """EngineUnavailable where the nodes' kernel cannot shape such links, or such paths between
        sites."""

    def prepare_run(self, experiment: Experiment, run: RunFolder, data_folder: Path) -> None:
        """Add the engine's own files to a new run folder."""
        return

    def node_user(self, rank: int) -> int | None:
        """The user, and group, that writes as this node; None where it is the host's own."""
        return None

    def cluster(self, plan: ClusterPlan) -> Cluster: ...

    def remove_leftovers(self, session: str) -> None:
        """Remove what an interruption may have left of a session."""
        return


class EngineModule(Protocol):
    """What an engine's module has; `hosts` is how engine `existing` reaches its own."""

    def check(
        self, experiments: Sequence[Experiment] = (), hosts: HostOptions | None = None
    ) -> str:
        """How the engine works here; EngineUnavailable or SpecError where it cannot run them."""

    def limited_cores(self) -> int:
        """Cores that all nodes share; EngineUnavailable where nodes cannot be limited to a part."""

    def open_engine(
        self,
        experiments: Sequence[Experiment],
        say: Callable[[str], None],
        hosts: HostOptions | None = None,
    ) -> Engine:
        """An engine that is ready for the experiments, with all that their launchers need."""


@dataclass(frozen=True)
class EngineRow:
    """An engine by the module that has it, which is imported on first use."""

    nodes: str
    """What its nodes are."""
    module: str
    flag: str = "--engine"
    """Which flag chooses it."""

    def load(self) -> EngineModule:
        return cast(EngineModule, importlib.import_module(self.module))


ENGINES = {
    "docker": EngineRow("Docker containers", "cluster.containers.engine"),
    "netns": EngineRow("Linux namespaces", "cluster.namespaces.engine"),
    EXISTING: EngineRow("existing hosts", "cluster.existing.engine", flag="--launcher"),
}
"""In the order in which `auto` tries them."""
AUTO = "auto"


def engine_names() -> list[str]:
    """What --engine takes."""
    return [AUTO, *(name for name, row in ENGINES.items() if row.flag == "--engine")]


def choose_engine(
    requested: str | None, experiments: Sequence[Experiment], hosts: HostOptions | None = None
) -> tuple[str, str]:
    """The engine, checked, and why: `auto` takes the first of the table that works here."""
    if hosts is not None:
        if requested not in (None, AUTO):
            whose = "spark_master" if hosts.spark_master else f"launcher {experiments[0].launcher}"
            raise SpecError(f"{whose} has hosts of its own; leave out --engine {requested}")
        return EXISTING, ENGINES[EXISTING].load().check(experiments, hosts)
    requested = requested or AUTO
    one_of("engine", requested, engine_names())
    if requested != AUTO:
        return requested, ENGINES[requested].load().check(experiments)
    missing: list[EngineUnavailable] = []
    for name in engine_names()[1:]:
        try:
            how = ENGINES[name].load().check(experiments)
        except EngineUnavailable as error:
            if needs_containers(experiments):
                raise
            missing.append(error)
        else:
            first = f"{ENGINES[name].nodes}, since {missing[0].reason}" if missing else how
            return name, first
    raise missing[-1]
