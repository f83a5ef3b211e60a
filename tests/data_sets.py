"""A small data set, and a real web server that has its files."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from workloads.data.dataset import DataError, DataFile, Dataset

CONTENTS = {"images": bytes(range(256)) * 40_000, "labels": b"0123456789" * 100}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def web_server(folder: Path) -> Iterator[str]:
    """The address, ending in /, of a server on loopback that hands out a folder."""
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def made(name: str, **options: Any) -> Dataset:
    files = tuple(
        DataFile(name=name, size_bytes=len(raw), sha256=hashlib.sha256(raw).hexdigest())
        for name, raw in CONTENTS.items()
    )
    return Dataset(name=name, files=files, usual_folder="Digits/raw", **options)


def pack(folder: Path, contents: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, raw in contents.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(raw, 1))
    return folder


def lay_out(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in CONTENTS.items():
        (folder / name).write_bytes(raw)
    return folder


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def refusal(call: Callable[[], object]) -> str:
    """The DataError of a call, which is one line."""
    with pytest.raises(DataError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)
