"""The driver on an existing Spark cluster.

    python -m workloads.launchers.spark_remote MASTER WORKERS

Started by cluster/existing/engine.py. It first runs one task per worker, all at once, which
describe their hosts; the descriptions, or what is wrong, are the first line on standard output, as
JSON. Then every line on standard input, {"run": folder, "data": folder}, is a run until it ends.
"""

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

import cloudpickle
import horovod.spark
import pyspark.cloudpickle
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from cluster.spec.documents.events import End
from cluster.spec.documents.run_folder import RunFolder
from workloads.event_log import EventLog
from workloads.launchers import remote_entry
from workloads.launchers.artifact_server import ArtifactServer
from workloads.launchers.spark_fit import complaint, differing, too_few
from workloads.worker import PATIENCE_S, appears, log_to

DRIVER = "driver"
SLOTS_WAIT_S = float(os.environ.get("GRADWIRE_SPARK_WAIT_S", "60"))
"""How long to wait for another executor."""
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 5
ATTEMPTS = 2


class ClusterError(Exception):
    """Why the cluster cannot execute the runs, in one line."""


def main(master: str, workers: int) -> int:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Spark and Horovod print to it
    # Horovod forks, and a fork closes sys.stdin, which would block while this process reads it.
    orders_in = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for library in (cloudpickle, pyspark.cloudpickle):
        library.register_pickle_by_value(remote_entry)
    session = open_session(master, workers)
    try:
        found = describe_workers(session, workers)
    except ClusterError as error:
        answers.write(json.dumps({"complaint": str(error)}) + "\n")
        _close(session)
        return 1
    answers.write(json.dumps({"workers": found}) + "\n")
    orders: queue.Queue[dict[str, str]] = queue.Queue()
    threading.Thread(target=_listen, args=(orders_in, orders, session), daemon=True).start()
    host = str(session.conf.get("spark.driver.host"))
    # Where Spark's driver itself listens: workers reach both, or neither.
    bind_address = session.conf.get("spark.driver.bindAddress", host)
    with ArtifactServer(host, bind_address) as artifact_server:
        while True:
            # In the main thread, because Horovod installs signal handlers.
            _execute(orders.get(), artifact_server, found)


def _listen(orders_in: TextIO, orders: queue.Queue[dict[str, str]], session: SparkSession) -> None:
    """Queue orders until standard input ends; then end this process, even during a run."""
    for line in orders_in:
        orders.put(json.loads(line))
    threading.Timer(STOP_TIMEOUT_S, _end).start()
    _close(session)
    _end()


def _close(session: SparkSession) -> None:
    name = session.sparkContext.applicationId
    with contextlib.suppress(Exception):
        session.stop()
    # A local-cluster[...] leaves its applications' folders below Spark's own.
    shutil.rmtree(Path(_find_spark_home()) / "work" / name, ignore_errors=True)


def _end() -> None:
    """Kill the process group with Java and Horovod's forks: an exit would wait for threads."""
    os.killpg(os.getpgrp(), signal.SIGKILL)


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


def describe_workers(session: SparkSession, workers: int) -> list[dict[str, Any]]:
    """The hosts of all workers, each described by a task; a barrier job runs all tasks at once."""
    context = session.sparkContext
    _await_executors(session, workers)
    tasks = context.parallelize(range(workers), workers).barrier()
    for attempt in range(1, ATTEMPTS + 1):
        try:
            found: list[dict[str, Any]] = tasks.mapPartitions(
                lambda _: [remote_entry.describe_host()]
            ).collect()
            break
        except Exception as error:  # Python may start too slowly on a busy host
            traceback.print_exc()
            if attempt == ATTEMPTS:
                raise ClusterError(complaint(str(error))) from error
    if differences := differing(found, remote_entry.describe_host()):
        raise ClusterError(differences)
    return found


def _await_executors(session: SparkSession, workers: int) -> None:
    """Wait for one executor per worker, as long as their number keeps growing."""
    found, since = 0, time.monotonic()
    while (now := _executors(session)) < workers:
        if now > found:
            found, since = now, time.monotonic()
        if time.monotonic() - since > SLOTS_WAIT_S:
            raise ClusterError(too_few(workers, now, SLOTS_WAIT_S))
        time.sleep(0.1)


def _executors(session: SparkSession) -> int:
    status: Any = session.sparkContext._jsc.sc().getExecutorMemoryStatus()
    return int(status.size()) - 1  # without the driver


def _execute(
    order: dict[str, str], artifact_server: ArtifactServer, found: list[dict[str, Any]]
) -> None:
    run = artifact_server.run = RunFolder(Path(order["run"]))
    artifact_server.data = Path(order["data"])
    if not appears(run.spec):
        sys.exit(f"{run.spec} did not appear within {PATIENCE_S:g} s")
    log_to(run.log_of(DRIVER))
    log = EventLog(run.events_of(DRIVER), DRIVER)
    horovod.spark.run(
        remote_entry.train,
        args=(artifact_server.url, [host["network"] for host in found]),
        num_proc=run.read_experiment().workers,
        start_timeout=START_TIMEOUT_S,
        use_gloo=True,
        verbose=0,
        executable=found[0]["python"],
        stdout=sys.stdout,
        stderr=sys.stderr,
    )
    log.boundary(End)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
