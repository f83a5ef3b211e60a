"""The driver on a Spark cluster that is there already: python -m workloads.launchers.spark_remote MASTER WORKERS

Started by cluster/existing/engine.py. First it asks the cluster for as many tasks at once as there will be workers, and
each what it has; what it found, or what is wrong, is the first line on standard output, as JSON. Then every line on
standard input, {"run": folder, "data": folder}, is a run. It ends when standard input does.
"""

from __future__ import annotations

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
from cluster.spec.run_folder import RunFolder
from workloads.event_log import EventLog
from workloads.launchers import remote_entry as remote_entry
from workloads.launchers.artifact_server import ArtifactServer
from workloads.launchers.spark_fit import complaint, differing, too_few
from workloads.worker import PATIENCE_S, appears, log_to

DRIVER = "driver"
SLOTS_WAIT_S = float(os.environ.get("GRADWIRE_SPARK_WAIT_S", "60"))
"""For another executor to come; those of a busy cluster take their time."""
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 5
LOOKS = 2


class Unfit(Exception):
    """The cluster cannot do it; the message is one line and says why."""


def main(master: str, workers: int) -> int:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Spark and Horovod print, too
    # Horovod forks, and a fork closes its sys.stdin, for which it must not wait for us who read there.
    orders_in = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for library in (cloudpickle, pyspark.cloudpickle):
        library.register_pickle_by_value(remote_entry)
    session = open_session(master, workers)
    try:
        found = look_around(session, workers)
    except Unfit as unfit:
        answers.write(json.dumps({"complaint": str(unfit)}) + "\n")
        _close(session)
        return 1
    answers.write(json.dumps({"workers": found}) + "\n")
    orders: queue.Queue[dict[str, str]] = queue.Queue()
    threading.Thread(target=_listen, args=(orders_in, orders, session), daemon=True).start()
    with ArtifactServer(str(session.conf.get("spark.driver.host"))) as artifact_server:
        while True:
            _carry_out(orders.get(), artifact_server, found)  # here, since Horovod handles signals


def _listen(orders_in: TextIO, orders: queue.Queue[dict[str, str]], session: SparkSession) -> None:
    """Until nobody is there any more; then all ends, also in the middle of a run."""
    for line in orders_in:
        orders.put(json.loads(line))
    threading.Timer(STOP_TIMEOUT_S, _end).start()
    _close(session)
    _end()


def _close(session: SparkSession) -> None:
    name = session.sparkContext.applicationId
    with contextlib.suppress(Exception):
        session.stop()
    # A local-cluster[...] keeps what its programs had below Spark's own folder.
    shutil.rmtree(Path(_find_spark_home()) / "work" / name, ignore_errors=True)


def _end() -> None:
    """With Java and all that Horovod forked; threads of a run that was given up would wait for its workers."""
    os.killpg(os.getpgrp(), signal.SIGKILL)


def open_session(master: str, workers: int) -> SparkSession:
    """One core for each worker, on as many hosts as the cluster has."""
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
    """Ours as the master sees it, where its address says which host that is."""
    there = re.fullmatch(r"spark://([^:,]+):(\d+)", master)
    if there is None:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        unsent.connect((there[1], int(there[2])))
        return str(unsent.getsockname()[0])


def look_around(session: SparkSession, workers: int) -> list[dict[str, Any]]:
    """What each task found. A barrier job has all of its tasks at once, or none."""
    context = session.sparkContext
    _await_executors(session, workers)
    tasks = context.parallelize(range(workers), workers).barrier()
    for attempt in range(1, LOOKS + 1):
        try:
            found: list[dict[str, Any]] = tasks.mapPartitions(
                lambda _: [remote_entry.look_around()]
            ).collect()
            break
        except Exception as error:  # on a busy host a first Python may start too slowly for Spark
            traceback.print_exc()
            if attempt == LOOKS:
                raise Unfit(complaint(str(error))) from error
    if differences := differing(found, remote_entry.look_around()):
        raise Unfit(differences)
    return found


def _await_executors(session: SparkSession, workers: int) -> None:
    """Each has one core, hence one slot. As long as they become more, there is hope."""
    found, since = 0, time.monotonic()
    while (now := _executors(session)) < workers:
        if now > found:
            found, since = now, time.monotonic()
        if time.monotonic() - since > SLOTS_WAIT_S:
            raise Unfit(too_few(workers, now, SLOTS_WAIT_S))
        time.sleep(0.1)


def _executors(session: SparkSession) -> int:
    status: Any = session.sparkContext._jsc.sc().getExecutorMemoryStatus()
    return int(status.size()) - 1  # the driver stands there, too


def _carry_out(
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
        args=(artifact_server.url, [one["network"] for one in found]),
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
