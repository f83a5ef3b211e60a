"""HTTP server of the driver for workers on hosts without a shared disk.

Workers download code, spec and data, and upload events and the model. Every address contains a
random key, without which nothing is served or accepted.
"""

import io
import json
import secrets
import threading
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment
from workloads.data.tokens import data_folder, data_name

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("cluster", "workloads")
PIECE_BYTES = 1 << 20


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

    def __init__(self, host: str) -> None:
        self.code = zipped_code()
        self.run: RunFolder | None = None
        self.data: Path | None = None
        self._key = secrets.token_urlsafe(16)
        self._lock = threading.Lock()
        attributes = {"key": self._key, "get": self._get, "put": self._put}
        self._server = ThreadingHTTPServer(("", 0), type("Handler", (_Handler,), attributes))
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

    def _put(self, path: str, body: bytes) -> bool:
        if self.run is None:
            return False
        kind, _, node = path.partition("/")
        if kind == "events" and node.isalnum():
            with self._lock, self.run.events_of(node).open("ab") as file:
                file.write(body)
        elif kind == "model":
            self.run.model.write_bytes(body)
        else:
            return False
        return True


class _Handler(BaseHTTPRequestHandler):
    key: str
    get: Callable[[str], bytes | Path | None]
    put: Callable[[str, bytes], bool]

    def do_GET(self) -> None:
        found = self._call(type(self).get)
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
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200 if self._call(type(self).put, body) else 404, 0)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with the path after the key; None for a wrong key."""
        key, _, path = self.path.lstrip("/").partition("/")
        return function(path, *arguments) if secrets.compare_digest(key, self.key) else None

    def _answer(self, status: int, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """No-op: requests are not logged."""
