"""A web server on loopback for one page and what changes on it. Only GET, only known paths.

Its address has a random word, so that neither other users of this machine nor pages of other sites
can read it; the Host header is checked, so that no other name can be made to point here. Every
connection has a thread: a browser that is slow or stuck holds up nobody else.
"""

import contextlib
import hmac
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from cluster.spec.errors import SpecError

LOOPBACK = "127.0.0.1"
MOST_CONNECTIONS = 16
"""At a time; more are closed. A browser has up to six."""
IDLE_S = 10.0
"""After so long without a byte a connection is closed."""
STOP_S = 0.25
"""How often the server looks whether it should stop."""
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class Document:
    """What a path answers; `content` is given the number that follows ?after= (0 without one)."""

    kind: str
    content: Callable[[int], bytes | None]
    """None where there is nothing yet."""


class LoopbackServer:
    """Has its port from the start on; answers while it serves."""

    def __init__(self, port: int = 0) -> None:
        """Port 0 is one that is free; SpecError where a port cannot be had."""
        self._word = secrets.token_urlsafe(16)
        self._documents: Mapping[str, Document] = {}
        try:
            self._server = _Server(self, port)
        except OSError as error:
            raise SpecError(
                f"live {port} is not possible: {error.strerror}; without a number, --live takes a"
                " free port"
            ) from error
        self.answered_at: dict[str, float] = {}
        """When a path was last answered in full, by the monotonic clock."""

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_port}/{self._word}/"

    @contextlib.contextmanager
    def serving(self, documents: Mapping[str, Document]) -> Iterator[None]:
        """`documents` by path, such as "" and "state.json". The end takes a quarter of a second."""
        self._documents = documents
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(STOP_S,), daemon=True).start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()

    def find(self, host: str, target: str) -> tuple[HTTPStatus, str, bytes]:
        """What a request is answered: status, type and content."""
        port = self._server.server_port
        if host not in (f"{LOOPBACK}:{port}", f"localhost:{port}"):
            return HTTPStatus.FORBIDDEN, "text/plain", b"unknown Host header\n"
        path, _, query = target.partition("?")
        start = f"/{self._word}/"
        document = self._documents.get(path[len(start) :])
        content = None
        if document and hmac.compare_digest(path[: len(start)].encode(), start.encode()):
            after = query.removeprefix("after=")
            is_number = after.isascii() and after.isdigit() and len(after) < 16
            content = document.content(int(after) if is_number else 0)
        if document is None or content is None:
            return HTTPStatus.NOT_FOUND, "text/plain", b"nothing here\n"
        return HTTPStatus.OK, document.kind, content

    def note_answer(self, target: str) -> None:
        self.answered_at[target.partition("?")[0].rpartition("/")[2]] = time.monotonic()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, owner: LoopbackServer, port: int) -> None:
        self.owner = owner
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((LOOPBACK, port), _Handler)

    def server_bind(self) -> None:
        """Without the look-up of the host's name that http.server does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.socket.getsockname()[1]

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self._places.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def do_GET(self) -> None:
        owner = self.server.owner
        status, kind, content = owner.find(self.headers.get("Host", ""), self.path)
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        if status == HTTPStatus.OK:
            owner.note_answer(self.path)

    def version_string(self) -> str:
        return "gradwire"

    def log_message(self, *_: object) -> None:
        """Nothing: the terminal is for the session."""
