"""The agent of a host that reaches the driver over HTTP. Standard library only."""

import contextlib
import json
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
from dataclasses import asdict
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workloads.hosts.agent import BEAT_S, Agent, AgentError, Ending, Membership, free_port
from workloads.hosts.entry import describe_host
from workloads.hosts.fit import TORCH_PACKAGES

TIMEOUT_S = 60
ASK_S = 0.25
GONE_S = 15.0
"""Without an answer for this long, the driver is gone."""
OVER = 410


class DriverGone(Exception):
    """The driver does not answer."""


class Over(Exception):
    """The driver has no more runs."""


class DriverLine:
    """One connection to the driver, kept open; requests may come from several threads."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), parts.port or 80
        self._path = parts.path
        self._lock = threading.Lock()
        self._connection: HTTPConnection | None = None
        self.asked_at = time.monotonic()

    def get(self, path: str) -> tuple[int, bytes]:
        return self._ask("GET", path, b"")

    def put(self, path: str, body: bytes) -> None:
        status, _ = self._ask("PUT", path, body)
        if status != 200:
            raise ConnectionError(f"the driver refused {path}: HTTP status {status}")

    def fetch(self, path: str, target: Path) -> None:
        """Download a file piece by piece, over a connection of its own."""
        connection = HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        with contextlib.closing(connection), target.open("wb") as file:
            connection.request("GET", f"{self._path}/{path}")
            answer = connection.getresponse()
            if answer.status != 200:
                raise ConnectionError(f"the driver has no {path}: HTTP status {answer.status}")
            shutil.copyfileobj(answer, file)

    @property
    def own_address(self) -> str:
        """This host's address on the way to the driver."""
        with socket.create_connection((self._host, self._port), TIMEOUT_S) as trial:
            return str(trial.getsockname()[0])

    def _ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Tried again until the driver counts as gone."""
        deadline = time.monotonic() + GONE_S
        with self._lock:
            while True:
                try:
                    if self._connection is None:
                        self._connection = HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
                    self._connection.request(method, f"{self._path}/{path}", body)
                    answer = self._connection.getresponse()
                    self.asked_at = time.monotonic()
                    return answer.status, answer.read()
                except (OSError, HTTPException) as error:
                    if self._connection is not None:
                        self._connection.close()
                    self._connection = None
                    if time.monotonic() > deadline:
                        raise DriverGone(f"the driver does not answer: {error}") from error
                    time.sleep(ASK_S)


def serve(url: str, folder: Path) -> int:
    """Until the driver has no more runs; the exit code."""
    line = DriverLine(url)
    try:
        member = join(line, describe_host(TORCH_PACKAGES))
    except Over:
        return 0
    except DriverGone as error:
        print(f"gradwire: {error}", file=sys.stderr)
        return 1
    rank = member.rank
    agent = Agent(
        member,
        folder,
        lambda kind, body: line.put(f"{kind}/{rank}", body),
        str(folder / "code.zip"),
        folder / "data",
    )
    is_over = threading.Event()
    line.put(f"heartbeat/{rank}", b"")  # by its connection the driver sees whether this host lives
    pulse = threading.Thread(target=_beat, args=(line, rank, is_over), daemon=True)
    pulse.start()
    try:
        _work(line, agent)
    except DriverGone:
        return 1
    finally:
        is_over.set()
        agent.close()
    # Who hears of it may end the job: what is left to do is to remove the folder.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(DriverGone, ConnectionError):
        line.put(f"leave/{rank}", b"")
    return 0


def join(line: DriverLine, facts: Any) -> Membership:
    """Introduce this host, and wait for its rank."""
    name = secrets.token_hex(8)
    document = {"facts": facts, "address": line.own_address, "port": free_port()}
    line.put(f"join/{name}", json.dumps(document).encode())
    return Membership(**json.loads(_await(line, f"member/{name}")))


def _work(line: DriverLine, agent: Agent) -> None:
    number = 0
    while True:
        try:
            spec = _await(line, f"order/{number}").decode()
        except Over:
            return
        number += 1
        try:
            fetch_data(line, agent.data)
            ending = Ending(agent.execute(spec))
        except (AgentError, ConnectionError, OSError) as error:
            ending = Ending(1, str(error) or type(error).__name__)
        line.put(f"ended/{agent.member.rank}", json.dumps(asdict(ending)).encode())


def fetch_data(line: DriverLine, folder: Path) -> None:
    """What the run reads and is not there yet."""
    status, names = line.get("data")
    if status != 200:
        raise ConnectionError(f"the driver does not tell the run's data: HTTP status {status}")
    for name in json.loads(names):
        if not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            line.fetch(f"data/{name}", folder / name)


def _await(line: DriverLine, path: str) -> bytes:
    """Ask until there is an answer; Over where there will be none."""
    while True:
        status, body = line.get(path)
        if status == 200:
            return body
        if status == OVER:
            raise Over
        time.sleep(ASK_S)


def _beat(line: DriverLine, rank: int, is_over: threading.Event) -> None:
    """Signs of life also where there is no worker's heartbeat, as while data are fetched."""
    while not is_over.wait(BEAT_S / 2):
        try:
            if time.monotonic() - line.asked_at > BEAT_S:
                line.put(f"heartbeat/{rank}", b"")
        except (DriverGone, ConnectionError):
            return
