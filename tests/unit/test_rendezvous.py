"""Nodes wait for node 0, which may start last."""

from __future__ import annotations

import re
import socket
import threading

import pytest

from tests.measuring import PATIENCE_S
from workloads.comm.rendezvous import await_rendezvous


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """A bound port on which nothing listens yet."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(server.getsockname()[1]))
    return server


def test_a_node_that_is_early_waits_for_node_0(first: socket.socket) -> None:
    found = threading.Event()

    def wait() -> None:
        await_rendezvous(500)
        found.set()

    threading.Thread(target=wait, daemon=True).start()
    with first:
        assert not found.wait(0.2)
        first.listen()
        assert found.wait(PATIENCE_S)


@pytest.mark.parametrize("name", ["127.0.0.1", "no..name"])
def test_a_missing_node_0_is_named(
    first: socket.socket, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("MASTER_ADDR", name)
    said = re.escape(f"no rendezvous at {name}:{first.getsockname()[1]} after 0 s")
    with first, pytest.raises(TimeoutError, match=said):
        await_rendezvous(0.1)
