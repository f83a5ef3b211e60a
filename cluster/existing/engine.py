"""Engine `existing`: hosts that are already there, reached through Spark, Slurm or Ray.

Nothing but the workers' own counters can be read there, and no link, CPU or memory be limited.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cluster import environment
from cluster.engine import ClusterPlan, Engine, EngineUnavailable, refuse_limits
from cluster.existing.cluster import HostsCluster
from cluster.existing.launchers import HOST_LAUNCHERS
from cluster.spec.documents.codec import Options
from cluster.spec.errors import SpecError
from cluster.spec.experiment import EXISTING, Experiment
from cluster.spec.hosts import HostOptions
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.links import Link


def check(experiments: Sequence[Experiment] = (), hosts: HostOptions | None = None) -> str:
    """How the hosts are reached; SpecError or EngineUnavailable where experiments cannot run."""
    options, launcher = hosts or HostOptions(), launcher_of(experiments)
    for experiment in experiments:
        refuse_limits(experiment, _way_out(launcher))
        if experiment.strategy == "single":
            raise SpecError(f"strategy single needs no cluster: {_way_out(launcher)}")
        if experiment.program is not None:
            raise SpecError(f"a program needs nodes of this machine: {_way_out(launcher)}")
        if experiment.gpu:
            raise SpecError(f"gpu does not apply to launcher {launcher}: {_way_out(launcher)}")
    return HOST_LAUNCHERS[launcher].check(options)


def launcher_of(experiments: Sequence[Experiment]) -> str:
    """The one of all runs; SpecError where there are several, or it has no hosts of its own."""
    launchers = sorted({experiment.launcher for experiment in experiments})
    for launcher in launchers:
        if launcher not in HOST_LAUNCHERS:
            if launchers == [launcher]:
                raise SpecError(f"spark_master needs --launcher spark, not {launcher}")
            raise SpecError(
                f"launcher {' and '.join(launchers)} need different nodes: start a session for each"
            )
    if len(launchers) != 1:
        raise SpecError(
            f"launcher {' and '.join(launchers)} need different hosts: start a session for each"
        )
    return launchers[0]


def _way_out(launcher: str) -> str:
    """How to get nodes that can be limited."""
    if LAUNCHERS[launcher].on_hosts_only:
        return "use --launcher torch for nodes on this machine"
    return "leave out --spark-master for a cluster of containers"


def limited_cores() -> int:
    raise EngineUnavailable("the nodes are on other hosts")


def open_engine(
    experiments: Sequence[Experiment],
    say: Callable[[str], None],
    hosts: HostOptions | None = None,
) -> Engine:
    """The engine, with this Python's packages that the launcher's driver needs."""
    launcher = launcher_of(experiments)
    if (needed := HOST_LAUNCHERS[launcher].needs) is not None:
        environment.need(needed, say)
    return HostsEngine(launcher, hosts or HostOptions(), say)


@dataclass(frozen=True)
class HostsEngine(Engine):
    """See cluster.engine.Engine."""

    launcher: str
    options: HostOptions
    say: Callable[[str], None]

    @property
    def about(self) -> Options:
        given = {
            name: getattr(self.options, name) for name in HOST_LAUNCHERS[self.launcher].options
        }
        return {"name": EXISTING, **given, "cpu_limits": None, "memory_limits": None}

    def check_links(self, links: Iterable[Link], paths: Iterable[Link] = ()) -> None:
        raise AssertionError("check() has refused links")

    def cluster(self, plan: ClusterPlan) -> HostsCluster:
        return HostsCluster(plan, self.launcher, self.options, self.say)
