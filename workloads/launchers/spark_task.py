"""One run on one worker, called by Horovod in every task of a Spark job.

Spark places the tasks and Horovod numbers them; our rank is the number in the node's name.
"""

import contextlib
import os
import socket
from pathlib import Path

from cluster.spec.documents.run_folder import RunFolder
from workloads.heartbeat import beating
from workloads.worker import Settings, run_once


def train(run: str, data_folder: str, record: bool) -> None:
    rank = int(socket.gethostname().removeprefix("node"))
    folder = RunFolder(Path(run))
    with beating(folder, rank) if record else contextlib.nullcontext():
        run_once(folder, Settings(rank, (folder,), record, Path(data_folder)))


def from_environment() -> tuple[list[RunFolder], bool, str]:
    """The runs, whether to record them, and the data folder."""
    runs = [RunFolder(Path(run)) for run in os.environ["GRADWIRE_RUNS"].splitlines()]
    return runs, os.environ.get("GRADWIRE_RECORD") == "1", os.environ["GRADWIRE_DATA"]
