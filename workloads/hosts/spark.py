"""Host launcher `spark`: an application on an existing Spark cluster, with Horovod.

It first runs one task per worker, all at once, which describe their hosts. Each run is then one job
of Horovod, which connects the tasks and numbers them: ranks are Horovod's. A run of virtual workers
is one plain task; Spark gives it a free slot.
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
from workloads.hosts.agent import Ending
from workloads.hosts.artifact_server import ArtifactServer
from workloads.hosts.fit import HostFacts, different_places, spark_complaint, too_few_slots
from workloads.hosts.launcher import POLL_S, HostsError, HostsLost, Patience, Request, judge
from workloads.worker import log_to

DRIVER = "driver"
START_TIMEOUT_S = 120
ATTEMPTS = 2
LATER_S = 2.0


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
        request = self._request
        self._session = open_session(
            str(request.options.spark_master), request.nodes, reuse=not request.spread
        )
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
        context, request = self._session.sparkContext, self._request
        workers = _await_executors(self._session, request, Patience(request))
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
        if not request.spread and (complaint := different_places(self._found)):
            raise HostsError(complaint)
        if not request.spread:
            self._server = self._open_server().__enter__()
        return self._found

    def _open_server(self) -> ArtifactServer:
        assert self._session is not None
        host = str(self._session.conf.get("spark.driver.host"))
        # Where Spark's driver itself listens: workers reach both, or neither.
        return ArtifactServer(host, self._session.conf.get("spark.driver.bindAddress", host))

    def execute(self, run: RunFolder, data: Path, host: int | None = None) -> None:
        """In the main thread, because Horovod installs signal handlers."""
        if host is not None:
            self._execute_alone(run, data)
            return
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

    def _execute_alone(self, run: RunFolder, data: Path) -> None:
        assert self._session is not None
        with self._open_server() as server:
            server.deliveries.begin(run)
            server.data, url = data, server.url
            one = self._session.sparkContext.parallelize([0], 1)
            try:
                (code,) = one.map(lambda _: entry.execute_in_spark(url)).collect()
            except Exception as error:
                traceback.print_exc()
                raise HostsLost(spark_complaint(str(error))) from error
            server.deliveries.finish_model()
        judge([Ending(code)], [run.name])


def open_session(master: str, workers: int, reuse: bool) -> SparkSession:
    """A Spark session with one core for each worker; `reuse` is of Python processes by tasks."""
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
        "spark.python.worker.reuse": str(reuse).lower(),
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


def _await_executors(session: SparkSession, request: Request, patience: Patience) -> int:
    """Wait for one executor per worker, as long as their number keeps growing; how many came.

    Where runs are spread, those count that come soon after the first.
    """
    found, workers, since = 0, request.nodes, time.monotonic()
    while (now := _executors(session)) < workers:
        if now > found:
            found, since = now, time.monotonic()
            patience.renew()
        if request.spread and found and time.monotonic() - since > LATER_S:
            return found
        if patience.is_over:
            raise HostsError(too_few_slots(workers, now, patience.limit_s))
        patience.tell(f"waiting for {workers} free slots, {now} are there")
        time.sleep(POLL_S)
    return workers


def _executors(session: SparkSession) -> int:
    status: Any = session.sparkContext._jsc.sc().getExecutorMemoryStatus()
    return int(status.size()) - 1  # without the driver
