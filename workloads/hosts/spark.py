"""Host launcher `spark`: an application on an existing Spark cluster, with Horovod.

It first runs one task per worker, all at once, which describe their hosts. Each run is then one job
of Horovod, which connects the tasks and numbers them: ranks are Horovod's.
"""

import contextlib
import re
import shutil
import socket
import time
import traceback
from pathlib import Path
from typing import Any, Self

import cloudpickle
import horovod.spark
import pyspark.cloudpickle
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from cluster.spec.documents.run_folder import RunFolder
from workloads.hosts import entry
from workloads.hosts.artifact_server import ArtifactServer
from workloads.hosts.fit import HostFacts, different_places, spark_complaint, too_few_slots
from workloads.hosts.launcher import POLL_S, HostsError, Request
from workloads.worker import log_to

DRIVER = "driver"
START_TIMEOUT_S = 120
ATTEMPTS = 2


class SparkHosts:
    """See HostLauncher."""

    packages = ("torch", "horovod", "pyspark", "psutil", "numpy")
    chosen_by = "PYSPARK_PYTHON chooses the cluster's Python"

    def __init__(self, request: Request) -> None:
        self._request = request
        self._session: SparkSession | None = None
        self._server: ArtifactServer | None = None
        self._found: list[HostFacts] = []

    def __enter__(self) -> Self:
        for library in (cloudpickle, pyspark.cloudpickle):
            library.register_pickle_by_value(entry)
        self._session = open_session(str(self._request.options.spark_master), self._request.nodes)
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        name = session.sparkContext.applicationId
        with contextlib.suppress(Exception):
            session.stop()
        # A local-cluster[...] leaves its applications' folders below Spark's own.
        shutil.rmtree(Path(_find_spark_home()) / "work" / name, ignore_errors=True)

    def find_hosts(self) -> list[HostFacts]:
        """Each described by a task; a barrier job runs all tasks at once."""
        assert self._session is not None
        context, workers = self._session.sparkContext, self._request.nodes
        _await_executors(self._session, workers, self._request.options.patience_s)
        tasks = context.parallelize(range(workers), workers).barrier()
        packages = self.packages
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._found = tasks.mapPartitions(
                    lambda _: [entry.describe_host(packages)]
                ).collect()
                break
            except Exception as error:  # Python may start too slowly on a busy host
                traceback.print_exc()
                if attempt == ATTEMPTS:
                    raise HostsError(spark_complaint(str(error))) from error
        if complaint := different_places(self._found):
            raise HostsError(complaint)
        host = str(self._session.conf.get("spark.driver.host"))
        # Where Spark's driver itself listens: workers reach both, or neither.
        bind_address = self._session.conf.get("spark.driver.bindAddress", host)
        self._server = ArtifactServer(host, bind_address).__enter__()
        return self._found

    def execute(self, run: RunFolder, data: Path) -> None:
        """In the main thread, because Horovod installs signal handlers."""
        assert self._server is not None
        self._server.deliveries.begin(run)
        self._server.data = data
        log_to(run.log_of(DRIVER))
        horovod.spark.run(
            entry.train_in_spark,
            args=(self._server.url, [host["network"] for host in self._found], self.packages),
            num_proc=run.read_experiment().workers,
            start_timeout=START_TIMEOUT_S,
            use_gloo=True,
            verbose=0,
            executable=self._found[0]["python"],
        )
        self._server.deliveries.finish_model()


def open_session(master: str, workers: int) -> SparkSession:
    """A Spark session with one core for each worker."""
    settings = {
        "spark.app.name": "gradwire",
        "spark.executor.cores": "1",
        "spark.cores.max": str(workers),
        "spark.executor.instances": str(workers),
        "spark.dynamicAllocation.enabled": "false",
        "spark.task.maxFailures": "1",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "5",
        "spark.ui.showConsoleProgress": "false",
    }
    address = own_address(master)
    if address is not None:
        settings |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
    session: SparkSession = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def own_address(master: str) -> str | None:
    """This host's address on the way to the master, where the master's address names a host."""
    there = re.fullmatch(r"spark://([^:,]+):(\d+)", master)
    if there is None:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        unsent.connect((there[1], int(there[2])))
        return str(unsent.getsockname()[0])


def _await_executors(session: SparkSession, workers: int, patience_s: float) -> None:
    """Wait for one executor per worker, as long as their number keeps growing."""
    found, since = 0, time.monotonic()
    while (now := _executors(session)) < workers:
        if now > found:
            found, since = now, time.monotonic()
        if time.monotonic() - since > patience_s:
            raise HostsError(too_few_slots(workers, now, patience_s))
        time.sleep(POLL_S)


def _executors(session: SparkSession) -> int:
    status: Any = session.sparkContext._jsc.sc().getExecutorMemoryStatus()
    return int(status.size()) - 1  # without the driver
