"""One run on one worker of an existing cluster: downloads its input from, uploads to the driver.

Events are uploaded between epochs: these bytes do not count as training. Ranks are Horovod's.
"""

import json
import os
import shutil
import urllib.request
from pathlib import Path
from typing import Any

from cluster.spec.documents.events import End, Epoch, Event, Failure, Hello
from cluster.spec.documents.run_folder import RunFolder, node_name
from workloads.event_log import EventLog
from workloads.worker import Settings, run_once

TIMEOUT_S = 60
UPLOADED_WITH = (Hello, Epoch, Failure, End)
"""Events outside of training: with them all events so far are uploaded."""


class SentLog(EventLog):
    """An event log whose file is on the driver's host."""

    def __init__(self, artifact_server: str, node: str, workers_on_host: int) -> None:
        super().__init__(None, node, workers_on_host)
        self._address = f"{artifact_server}/events/{node}"
        self._lines: list[str] = []

    def write(self, event: Event) -> None:
        self._lines.append(event.line())
        if isinstance(event, UPLOADED_WITH):
            put(self._address, "".join(self._lines).encode())
            self._lines.clear()


def train(artifact_server: str, folder: Path, workers_on_host: int) -> None:
    """Execute a run in a temporary folder; `workers_on_host` of its workers are on this host."""
    rank = int(os.environ["HOROVOD_RANK"])
    run = RunFolder(folder / "run").create()
    run.spec.write_bytes(get(f"{artifact_server}/spec"))
    settings = Settings(
        rank, (run,), record=True, data_folder=fetch_data(artifact_server, folder / "data")
    )
    log = SentLog(artifact_server, node_name(rank), workers_on_host)
    run_once(run, settings, log)
    if rank == 0:
        put(f"{artifact_server}/model", run.model.read_bytes())


def fetch_data(artifact_server: str, folder: Path) -> Path:
    """Download the data for this run only: Spark would leave its own copies on the workers."""
    folder.mkdir()
    for name in json.loads(get(f"{artifact_server}/data")):
        (folder / name).parent.mkdir(exist_ok=True)
        with (folder / name).open("wb") as file, _open(f"{artifact_server}/data/{name}") as answer:
            shutil.copyfileobj(answer, file)
    return folder


def get(address: str) -> bytes:
    with _open(address) as answer:
        body: bytes = answer.read()
    return body


def put(address: str, body: bytes) -> None:
    _open(urllib.request.Request(address, body, method="PUT")).close()


def _open(request: str | urllib.request.Request) -> Any:
    return urllib.request.urlopen(request, timeout=TIMEOUT_S)
