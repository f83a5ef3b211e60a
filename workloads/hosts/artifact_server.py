"""HTTP server of the driver for hosts without a shared disk.

Hosts download code, spec and data, and upload events, heartbeats, logs and the model. Every address
contains a random key, which is checked before anything is read, served or stored; uploads have
limits.
"""

import functools
import io
import json
import secrets
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from cluster.spec.experiment import Experiment
from workloads.data.tokens import data_folder, data_name
from workloads.hosts.deliveries import Deliveries, TooLarge

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("cluster", "workloads")
PIECE_BYTES = 1 << 20
TIMEOUT_S = 60
POLL_S = 0.05
"""Until its end is noticed."""
BODY_BYTES = 1 << 28
"""The most of one upload; the model comes in pieces."""

Answer = tuple[int, bytes]
"""An HTTP status and a body."""


def zipped_code() -> bytes:
    """The packages that workers need, as a zip from which Python can import."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for file in sorted((PROJECT / package).rglob("*.py")):
                archive.write(file, file.relative_to(PROJECT))
    return buffer.getvalue()


def data_files(spec: Experiment, root: Path) -> dict[str, Path]:
    """The files that a run reads: DATASET/FILE -> path."""
    if spec.dataset == "none":
        return {}
    files = sorted(data_folder(spec, root).iterdir())
    return {f"{data_name(spec)}/{file.name}": file for file in files if file.is_file()}


class ArtifactServer:
    """A context manager; `data` is the folder of the current run's data."""

    def __init__(self, host: str, bind_address: str | None = None) -> None:
        """`host` is what workers call this host, `bind_address` the address to listen at."""
        self.code = zipped_code()
        self.deliveries = Deliveries()
        self.data: Path | None = None
        self._key = secrets.token_urlsafe(16)
        attributes = {"server_side": self, "key": self._key}
        handler = type("Handler", (_Handler,), attributes)
        self._server = ThreadingHTTPServer((bind_address or host, 0), handler)
        self.url = f"http://{host}:{self._server.server_port}/{self._key}"

    def __enter__(self) -> Self:
        serve = functools.partial(self._server.serve_forever, poll_interval=POLL_S)
        threading.Thread(target=serve, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def get(self, path: str) -> bytes | Path | Answer | None:
        """The content at a path, or an answer with its status."""
        kind, _, name = path.partition("/")
        if kind == "code":
            return self.code
        run = self.deliveries.run
        if run is None or self.data is None:
            return None
        if kind == "spec":
            return run.spec
        if kind == "data":
            files = data_files(run.read_experiment(), self.data)
            return files.get(name) if name else json.dumps(list(files)).encode()
        return None

    def admits(self, path: str, length: int) -> int:
        """The status of an upload before its body is read."""
        kind, _, node = path.partition("/")
        most = self.deliveries.most_bytes(kind)
        if self.deliveries.run is None or most is None or not node.isdecimal():
            return 404
        return 200 if length <= min(most, BODY_BYTES) else 413

    def put(self, path: str, body: bytes) -> Answer:
        """Store an upload that was admitted."""
        kind, _, node = path.partition("/")
        try:
            self.deliveries.store(kind, int(node), body)
        except TooLarge:
            return 413, b""
        return 200, b""

    def connected(self, path: str, connection: int) -> None:
        """An upload came over this connection."""

    def closed(self, connection: int) -> None:
        """A connection was closed by its other end."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # an agent's heartbeats share one connection
    timeout = TIMEOUT_S
    key: str
    server_side: ArtifactServer

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            pass  # the other end has gone, which closed() tells
        finally:
            self.server_side.closed(id(self))

    def do_GET(self) -> None:
        path = self._path()
        found = None if path is None else self.server_side.get(path)
        if isinstance(found, Path):
            self._head(200, found.stat().st_size)
            with found.open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    self.wfile.write(piece)
        elif isinstance(found, tuple):
            self._answer(*found)
        else:
            self._answer(404, b"") if found is None else self._answer(200, found)

    def do_PUT(self) -> None:
        path, length = self._path(), self.headers.get("Content-Length", "")
        if path is None:
            status = 404
        elif not length.isdecimal():
            status = 411
        else:
            status = self.server_side.admits(path, int(length))
        if path is None or status != 200:
            self.close_connection = True  # its body was not read
            self._answer(status, b"")
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            return
        self.server_side.connected(path, id(self))
        self._answer(*self.server_side.put(path, body))

    def _path(self) -> str | None:
        """The path after the key; None for a wrong key."""
        key, _, path = self.path.lstrip("/").partition("/")
        return path if secrets.compare_digest(key.encode(), self.key.encode()) else None

    def _answer(self, status: int, body: bytes) -> None:
        self._head(status, len(body))
        self.wfile.write(body)

    def _head(self, status: int, length: int) -> None:
        self.send_response_only(status)  # without date and server: heartbeats stay small
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """No-op: requests are not logged."""
