"""Where every node listens, and connections to and from the others."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import torch.distributed as dist

from workloads.unpaced.frames import Connection, ConnectionEnded, PeerLost

Serve = Callable[[Connection], None]
"""Answers one frame of a connection."""


@dataclass(frozen=True)
class Addresses:
    """Every node's address, and this node's own listener."""

    rank: int
    by_rank: list[tuple[str, int]]
    listener: socket.socket
    timeout_s: float

    def connect(self, rank: int) -> Connection:
        try:
            end = socket.create_connection(self.by_rank[rank], timeout=self.timeout_s)
        except OSError as error:
            raise PeerLost(rank, error.strerror or str(error)) from None
        return Connection(end, rank, self.timeout_s)


def meet(rank: int, timeout_s: float) -> Addresses:
    """Listen, and tell each other where; all nodes call it."""
    listener = socket.create_server((_own_address(), 0), backlog=256)
    found: list[tuple[str, int]] = [listener.getsockname()[:2]]
    if dist.is_initialized():
        found *= dist.get_world_size()
        dist.all_gather_object(found, listener.getsockname()[:2])
    return Addresses(rank, found, listener, timeout_s)


def _own_address() -> str:
    """Of the interface that the process group uses."""
    name = os.environ.get("GLOO_SOCKET_IFNAME", "")
    for address in psutil.net_if_addrs().get(name, ()):
        if address.family == socket.AF_INET:
            return address.address
    return socket.gethostbyname(socket.gethostname())


class Listener:
    """Serves every connection that others open, each in a thread of its own."""

    def __init__(
        self, addresses: Addresses, serve: Serve, fail: Callable[[BaseException], None]
    ) -> None:
        """`fail` is told what ended a thread, for the node's main thread to raise."""
        self._addresses, self._serve, self._fail = addresses, serve, fail
        self._connections: list[Connection] = []
        self._is_closing = False
        threading.Thread(target=self._accept, name="accept", daemon=True).start()

    def expect_closing(self) -> None:
        """From now on a closed connection is no failure: call it before a barrier of all."""
        self._is_closing = True

    def close(self) -> None:
        self._addresses.listener.close()
        for connection in self._connections:
            connection.interrupt()

    def _accept(self) -> None:
        while not self._is_closing:
            try:
                end, _ = self._addresses.listener.accept()
            except OSError:
                return  # closed
            connection = Connection(end, None, self._addresses.timeout_s)
            self._connections.append(connection)
            threading.Thread(target=self._run, args=[connection], daemon=True).start()

    def _run(self, connection: Connection) -> None:
        try:
            try:
                while True:
                    self._serve(connection)
            except ConnectionEnded:
                raise PeerLost(connection.rank, "it closed the connection") from None
        except BaseException as error:
            if not self._is_closing:
                self._fail(error)
        finally:
            connection.close()
