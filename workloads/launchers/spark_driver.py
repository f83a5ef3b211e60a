"""The driver of Horovod on Spark: python -m workloads.launchers.spark_driver

Settings are those of workloads/worker.py. One Spark application executes all runs of a cluster.
Each run is one job with a task per worker, which Horovod connects and in which it calls
spark_task.py; every Spark worker has one core, hence one task. The application is opened before the
first run starts.
"""

import sys
import time
import traceback

import horovod.spark
from pyspark.sql import SparkSession

from cluster.spec.documents.events import End, Failure, Notice
from cluster.spec.documents.run_folder import RunFolder
from workloads.event_log import EventLog
from workloads.launchers import spark_task
from workloads.worker import PATIENCE_S, appears, log_to

NODE = "driver"
LONGEST_MESSAGE = 400
START_TIMEOUT_S = 120
"""For all tasks to start: each needs a free core of a Spark worker."""


def main() -> int:
    runs, record, data_folder = spark_task.from_environment()
    session = SparkSession.builder.appName("gradwire").getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    for folder in runs:
        if record and not appears(folder.spec):
            print(f"driver: {folder.spec} did not appear within {PATIENCE_S:g} s", file=sys.stderr)
            return 3
        files = folder.files_of(NODE).to_write() if record else None
        if files is not None:
            log_to(files.log)
        log = EventLog(files.events if files else None, NODE)
        if folder is runs[0]:
            log.write(Notice(text=f"Spark {session.version} is up"))
        try:
            run(folder, data_folder, record)
        except Exception as error:
            words = " ".join(str(error).split())[:LONGEST_MESSAGE]
            log.write(Failure(message=f"{type(error).__name__}: {words}"))
            traceback.print_exc()
            return 1
        log.boundary(End)
    if record:
        time.sleep(PATIENCE_S)
    session.stop()
    return 0


def run(folder: RunFolder, data_folder: str, record: bool) -> None:
    horovod.spark.run(
        spark_task.train,
        args=(str(folder.path), data_folder, record),
        num_proc=folder.read_experiment().workers,
        start_timeout=START_TIMEOUT_S,
        use_gloo=True,
        nics=["eth0"],
        verbose=0,
        stdout=sys.stdout,
        stderr=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())
