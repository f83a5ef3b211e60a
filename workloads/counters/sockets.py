"""Payload bytes of every TCP connection of this node, of all its processes (sock_diag).

The kernel tells them to any process of the network namespace, as `ss -ti` shows. It forgets a
connection when it is closed: programs report closed ones themselves (workloads/program/on_path).
"""

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from cluster.spec.background import PORT as BACKGROUND_PORT
from cluster.spec.documents.events import ConnectionBytes
from workloads.counters.connections import Connection
from workloads.program.on_path.gradwire_tcp import end_name, parse_tcp_info

SOCK_DIAG = 4
BY_FAMILY = 20
REQUEST, DUMP = 0x1, 0x300
DONE, ERROR = 3, 2
INFO = 2
"""The attribute with struct tcp_info."""
CONNECTED = sum(1 << state for state in (1, 4, 5, 8, 9, 11))
"""ESTABLISHED, FIN_WAIT 1 and 2, CLOSE_WAIT, LAST_ACK, CLOSING: with counters of their own."""
HEADER = struct.Struct("=IHHII")
REQUESTED = struct.Struct("=BBBBI48x")
FIXED = 72
"""Bytes of struct inet_diag_msg, before its attributes."""


class Ends(NamedTuple):
    """Addresses as text, ADDRESS:PORT, and their ports."""

    local: str
    remote: str
    local_port: int
    remote_port: int

    @property
    def is_inside(self) -> bool:
        """Whether it leads to the node itself."""
        return self.local.rpartition(":")[0] == self.remote.rpartition(":")[0]


def read_node_connections() -> list[Connection]:
    """All connections of workers and programs to other nodes; none where the kernel does not tell
    (no tcp_diag)."""
    found = (_connection(ends, info) for ends, info in read_infos())
    return [connection for connection in found if connection is not None]


def read_infos() -> Iterator[tuple[Ends, bytes]]:
    """Both ends and struct tcp_info of all connections."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            messages = list(_dump(family))
        except OSError:
            continue
        for message in messages:
            yield _ends(message), _attribute(message, INFO)


def _dump(family: int) -> Iterator[bytes]:
    request = REQUESTED.pack(family, socket.IPPROTO_TCP, 1 << (INFO - 1), 0, CONNECTED)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as kernel:
        kernel.send(HEADER.pack(16 + len(request), BY_FAMILY, REQUEST | DUMP, 1, 0) + request)
        while True:
            answer = kernel.recv(1 << 18)
            at = 0
            while at < len(answer):
                length, kind, *_ = HEADER.unpack_from(answer, at)
                if kind in (DONE, ERROR):
                    return
                yield answer[at + HEADER.size : at + length]
                at += (length + 3) & ~3


def _ends(message: bytes) -> Ends:
    family = message[0]
    ports = struct.unpack_from(">HH", message, 4)
    size = 4 if family == socket.AF_INET else 16
    local, remote = (
        end_name((socket.inet_ntop(family, message[at : at + size]), port))
        for at, port in zip((8, 24), ports, strict=True)
    )
    return Ends(local, remote, *ports)


def _connection(ends: Ends, info: bytes) -> Connection | None:
    """One connection to elsewhere; None for one within the node, and for background traffic."""
    counted = parse_tcp_info(info)
    if counted is None or ends.is_inside or BACKGROUND_PORT in (ends.local_port, ends.remote_port):
        return None
    acknowledged, received, retransmitted = counted
    # Without the send queue, which the kernel reads a moment before: it may be in both.
    counts = ConnectionBytes(ends.local, ends.remote, acknowledged, received)
    return Connection(counts, retransmitted)


def _attribute(message: bytes, wanted: int) -> bytes:
    at = FIXED
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == wanted:
            return message[at + 4 : at + length]
        at += max(4, (length + 3) & ~3)
    return b""
