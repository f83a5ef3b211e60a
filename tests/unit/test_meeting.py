"""Nodes wait for the first of them, which may come last."""

from __future__ import annotations

import socket
import threading

import pytest

from workloads.meeting import await_meeting_point


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """A port that is taken, so that nobody else answers there, and on which nobody listens yet."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(server.getsockname()[1]))
    return server


def test_who_comes_before_the_first_node_waits_for_it(first: socket.socket) -> None:
    waiting = threading.Thread(target=await_meeting_point, args=(500,))
    with first:
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        first.listen()
        waiting.join()


def test_a_first_node_that_never_comes_is_named(first: socket.socket) -> None:
    port = first.getsockname()[1]
    with first, pytest.raises(TimeoutError, match=f"no meeting point at 127.0.0.1:{port} after"):
        await_meeting_point(0.1)
