"""Frames over TCP: a header of four numbers, and for some kinds tensors, as they are in memory.

Sizes are in cluster/spec/schedules/unpaced.py. Both ends know how many bytes of tensors follow a
header, so a frame says nothing of its length.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from collections.abc import Sequence

import torch
from torch import Tensor

from cluster.spec.schedules.unpaced import HEADER_BYTES, Kind

HEADER = struct.Struct("<IIII")
assert HEADER.size == HEADER_BYTES
READY = select.POLLIN | select.POLLHUP | select.POLLERR

Header = tuple[Kind, int, int, int]
"""Kind, and three numbers whose meaning is the kind's."""
Views = list[memoryview]


class PeerLost(ConnectionError):
    """Another node does not answer any more."""

    def __init__(self, rank: int | None, why: str) -> None:
        name = "another node" if rank is None else f"node{rank}"
        super().__init__(f"lost {name}: {why}")
        self.rank = rank


class ConnectionEnded(Exception):
    """The other end closed the connection between two frames."""


def views_of(tensors: Sequence[Tensor]) -> Views:
    """The memory of contiguous tensors."""
    return [memoryview(t.view(torch.uint8).numpy().data) for t in tensors if t.numel()]


class Connection:
    """One TCP connection to one other node, used by one thread."""

    def __init__(self, end: socket.socket, rank: int | None, timeout_s: float) -> None:
        """`rank` is the other node's; None where it has not said so yet."""
        self.rank, self._end, self._timeout_s = rank, end, timeout_s
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setblocking(False)

    def send(self, kind: Kind, *numbers: int, body: Sequence[Tensor] = ()) -> None:
        self._move([_header(kind, numbers), *views_of(body)], [])

    def receive_header(self, *, may_wait: bool = False) -> Header:
        """The next frame's. `may_wait`: for as long as it takes, and ConnectionEnded may come."""
        found = bytearray(HEADER_BYTES)
        self._move([], [memoryview(found)], may_wait=may_wait)
        kind, *numbers = HEADER.unpack(found)
        try:
            return Kind(kind), *numbers
        except ValueError:
            raise PeerLost(self.rank, f"it sent {kind}, which is no kind of frame") from None

    def receive_body(self, body: Sequence[Tensor]) -> None:
        self._move([], views_of(body))

    def ask(self, kind: Kind, *numbers: int) -> Header:
        """Send a header and wait for the answer's."""
        self.send(kind, *numbers)
        return self.receive_header()

    def swap(self, outgoing: Sequence[Tensor], incoming: Sequence[Tensor]) -> None:
        """Send one body after a MODEL header, and receive one, at the same time."""
        self._move([_header(Kind.MODEL, ()), *views_of(outgoing)], views_of(incoming))

    def swap_back(self, outgoing: Sequence[Tensor], incoming: Sequence[Tensor]) -> None:
        """The other end of swap()."""
        header = memoryview(bytearray(HEADER_BYTES))
        self._move([_header(Kind.YES, ()), *views_of(outgoing)], [header, *views_of(incoming)])

    def close(self) -> None:
        self._end.close()

    def interrupt(self) -> None:
        """Make the thread that waits for a frame see the end, from another thread."""
        with contextlib.suppress(OSError):  # it has ended already
            self._end.shutdown(socket.SHUT_RDWR)

    def _move(self, outgoing: Views, incoming: Views, *, may_wait: bool = False) -> None:
        """Send and receive all of it; neither end can be blocked by the other's full buffers."""
        leaving, arriving = list(reversed(outgoing)), list(reversed(incoming))
        begun = not may_wait
        poll = select.poll()
        try:
            while leaving or arriving:
                wanted = (select.POLLOUT if leaving else 0) | (READY if arriving else 0)
                poll.register(self._end, wanted)
                ready = poll.poll(self._timeout_s * 1000 if begun else None)
                if not ready:
                    raise PeerLost(self.rank, f"nothing from it for {self._timeout_s:.0f} s")
                if arriving and ready[0][1] & READY:
                    begun = self._receive_some(arriving, begun)
                if leaving and ready[0][1] & select.POLLOUT:
                    self._send_some(leaving)
        except PeerLost:
            raise
        except OSError as error:
            raise PeerLost(self.rank, error.strerror or str(error)) from None

    def _receive_some(self, arriving: Views, begun: bool) -> bool:
        """Whether the frame has begun."""
        try:
            count = self._end.recv_into(arriving[-1])
        except BlockingIOError:
            return begun
        if not count and not begun:
            raise ConnectionEnded
        if not count:
            raise PeerLost(self.rank, "it closed the connection")
        _advance(arriving, count)
        return True

    def _send_some(self, leaving: Views) -> None:
        with contextlib.suppress(BlockingIOError):
            _advance(leaving, self._end.send(leaving[-1]))


def _header(kind: Kind, numbers: Sequence[int]) -> memoryview:
    return memoryview(HEADER.pack(kind, *numbers, *[0] * (3 - len(numbers))))


def _advance(views: Views, count: int) -> None:
    """Take what was moved off the last view."""
    rest = views.pop()[count:]
    if len(rest):
        views.append(rest)
