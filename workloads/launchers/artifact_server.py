"""HTTP server of the driver for workers on hosts without a shared disk.

Workers download code, spec and data, and upload events and the model. Every address contains a
random key, which is checked before anything is read, served or stored; uploads have limits.
"""

import io
import json
import os
import secrets
import threading
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Self

from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment
from workloads.data.tokens import data_folder, data_name

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("cluster", "workloads")
PIECE_BYTES = 1 << 20
TIMEOUT_S = 60
EVENTS_BYTES = 1 << 30
"""The most that the event log of a node may hold."""
MODEL_BYTES = 16 << 30


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
    """A context manager; `run` and `data` are the current run's folder and data."""

    def __init__(self, host: str, bind_address: str | None = None) -> None:
        """`host` is what workers call this host, `bind_address` the address to listen at."""
        self.code = zipped_code()
        self.run: RunFolder | None = None
        self.data: Path | None = None
        self._key = secrets.token_urlsafe(16)
        self._lock = threading.Lock()
        attributes = {"key": self._key, "get": self._get, "put": self._put}
        handler = type("Handler", (_Handler,), attributes)
        self._server = ThreadingHTTPServer((bind_address or host, 0), handler)
        self.url = f"http://{host}:{self._server.server_port}/{self._key}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _get(self, path: str) -> bytes | Path | None:
        """The content at a path."""
        kind, _, name = path.partition("/")
        if kind == "code":
            return self.code
        if self.run is None or self.data is None:
            return None
        if kind == "spec":
            return self.run.spec
        if kind == "data":
            files = data_files(self.run.read_experiment(), self.data)
            return files.get(name) if name else json.dumps(list(files)).encode()
        return None

    def _put(self, path: str, body: BufferedIOBase, length: int) -> int:
        """Store an upload; the status of the answer."""
        if self.run is None:
            return 404
        kind, _, node = path.partition("/")
        if kind == "events" and node.isalnum():
            return self._append(self.run.events_of(node), body, length)
        if kind == "model" and not node:
            return 200 if length <= MODEL_BYTES and _store(self.run.model, body, length) else 413
        return 404

    def _append(self, log: Path, body: BufferedIOBase, length: int) -> int:
        """All of an upload or nothing: another attempt of the same task may upload meanwhile."""
        there_bytes = log.stat().st_size if log.exists() else 0
        if length > EVENTS_BYTES - there_bytes:
            return 413
        lines = body.read(length)
        with self._lock, log.open("ab") as file:
            file.write(lines)
        return 200


def _store(target: Path, body: BufferedIOBase, length: int) -> bool:
    """Write an upload piece by piece, under its name when it is complete; whether it is."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    with unfinished.open("wb") as file:
        while length and (piece := body.read(min(length, PIECE_BYTES))):
            file.write(piece)
            length -= len(piece)
    if length:
        unfinished.unlink()
        return False
    unfinished.replace(target)
    return True


class _Handler(BaseHTTPRequestHandler):
    timeout = TIMEOUT_S
    key: str
    get: Callable[[str], bytes | Path | None]
    put: Callable[[str, BufferedIOBase, int], int]

    def do_GET(self) -> None:
        path = self._path()
        found = None if path is None else type(self).get(path)
        if isinstance(found, Path):
            self._answer(200, found.stat().st_size)
            with found.open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    self.wfile.write(piece)
        elif found is None:
            self._answer(404, 0)
        else:
            self._answer(200, len(found))
            self.wfile.write(found)

    def do_PUT(self) -> None:
        path, length = self._path(), self.headers.get("Content-Length", "")
        if path is None:
            self._answer(404, 0)
        elif not length.isdecimal():
            self._answer(411, 0)
        else:
            self._answer(type(self).put(path, self.rfile, int(length)), 0)

    def _path(self) -> str | None:
        """The path after the key; None for a wrong key."""
        key, _, path = self.path.lstrip("/").partition("/")
        return path if secrets.compare_digest(key.encode(), self.key.encode()) else None

    def _answer(self, status: int, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """No-op: requests are not logged."""
