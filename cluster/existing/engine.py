"""Engine `existing`: the hosts of an existing Spark cluster (--spark-master).

Nothing but the workers' own counters can be read there, and no link, CPU or memory be limited.
"""

import re
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cluster import environment
from cluster.engine import ClusterPlan, Engine, EngineUnavailable, refuse_limits
from cluster.existing.cluster import SparkCluster
from cluster.spec.documents.codec import Options
from cluster.spec.errors import SpecError
from cluster.spec.experiment import EXISTING, Experiment
from cluster.spec.links import Link

TRIES, TRY_TIMEOUT_S, PAUSE_S = 3, 5.0, 2.0
FORMS = "spark://HOST:7077, yarn, k8s://https://HOST:PORT or local-cluster[N,CORES,MB]"
PATTERN = r"spark://[^:/]+:\d+(,[^:/]+:\d+)*|yarn|k8s://.+|local-cluster\[\d+,\d+,\d+\]"


def check(experiments: Sequence[Experiment] = (), master: str | None = None) -> str:
    """The cluster's master; SpecError or EngineUnavailable where experiments cannot run on it."""
    if master is None or not re.fullmatch(PATTERN, master):
        raise SpecError(f"spark_master {master!r} is no cluster; give {FORMS}")
    for experiment in experiments:
        if experiment.launcher != "spark":
            raise SpecError(f"spark_master needs --launcher spark, not {experiment.launcher}")
        refuse_limits(experiment, "leave out --spark-master for a cluster of containers")
        if experiment.strategy == "single":
            raise SpecError("strategy single needs no cluster: leave out --spark-master")
    if master.startswith("spark://"):
        _connect(master)
    return master


def limited_cores() -> int:
    raise EngineUnavailable("the nodes are on other hosts")


def open_engine(
    experiments: Sequence[Experiment], say: Callable[[str], None], master: str | None = None
) -> Engine:
    """The engine, with this Python's packages that Spark's driver needs."""
    assert master is not None
    environment.need("spark", say)
    return SparkEngine(master)


def _connect(master: str) -> None:
    """EngineUnavailable where no master accepts a connection; retries while one is starting."""
    addresses = [entry.rsplit(":", 1) for entry in master.removeprefix("spark://").split(",")]
    began = time.monotonic()
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE_S)
        for host, port in addresses:
            try:
                socket.create_connection((host, int(port)), timeout=TRY_TIMEOUT_S).close()
            except OSError as error:
                reason = error.strerror or str(error)
            else:
                return
    raise EngineUnavailable(
        f"launcher spark: no master answers at {master}: {TRIES} connections tried within"
        f" {time.monotonic() - began:.0f} s ({reason}); its own page shows the address to use"
    )


@dataclass(frozen=True)
class SparkEngine(Engine):
    """See cluster.engine.Engine."""

    master: str

    @property
    def about(self) -> Options:
        return {
            "name": EXISTING,
            "spark_master": self.master,
            "cpu_limits": None,
            "memory_limits": None,
        }

    def check_links(self, links: Iterable[Link]) -> None:
        raise AssertionError("check() has refused links")

    def cluster(self, plan: ClusterPlan) -> SparkCluster:
        return SparkCluster(plan, self.master)
