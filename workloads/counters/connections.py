"""Payload bytes of each TCP connection of this process, as counted by the kernel (TCP_INFO).

The owner of a connection may read its counters, so this needs no privilege, and works for any
library: Gloo's and Horovod's connections are found in /proc. Both ends are recorded, so that
analysis/summary/traffic_matrix.py can match the two ends afterwards. Closed connections are lost.
"""

import contextlib
import fcntl
import os
import socket
import struct
import termios
from typing import NamedTuple

from cluster.spec.documents.events import ConnectionBytes

ACKNOWLEDGED, RECEIVED, RETRANSMITTED = slice(120, 128), slice(128, 136), slice(208, 216)
"""Offsets of tcpi_bytes_acked, _received and _retrans in struct tcp_info (linux/tcp.h).

The last one exists since Linux 4.19.
"""


class Connection(NamedTuple):
    counted: ConnectionBytes
    """Bytes sent are those acknowledged and those in the send queue.

    tcpi_bytes_sent minus retransmissions is too high: packets dropped by the node's own full queue
    are sent again without counting as retransmitted, 14 % of the bytes on a link of 20 Mbit/s.
    """
    retransmitted_bytes: int


def read_connections() -> list[Connection] | None:
    """All open connections; None where the kernel is too old to count their bytes."""
    try:
        found = [_read(descriptor) for descriptor in map(int, os.listdir("/proc/self/fd"))]
    except UncountedError:
        return None
    return [connection for connection in found if connection is not None]


class UncountedError(Exception):
    """The kernel does not count the bytes of a connection."""


def _read(descriptor: int) -> Connection | None:
    """The connection of a file descriptor; None where it is not an open TCP connection."""
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
            with socket.socket(fileno=os.dup(descriptor)) as opened:
                if opened.family in (socket.AF_INET, socket.AF_INET6):
                    info = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                    local, remote = _name(opened.getsockname()), _name(opened.getpeername())
                    counted = parse_tcp_info(info)
                    if counted is None:
                        raise UncountedError
                    acknowledged, received, retransmitted = counted
                    sent = acknowledged + _send_queue_bytes(opened)
                    counts = ConnectionBytes(local, remote, sent, received)
                    return Connection(counts, retransmitted)
    return None


def parse_tcp_info(info: bytes) -> tuple[int, int, int] | None:
    """Bytes acknowledged, received, retransmitted; None from an older kernel's shorter struct.

    On the side that opened the connection, the SYN counts as one acknowledged byte.
    """
    if len(info) < RETRANSMITTED.stop:
        return None
    acknowledged, received, retransmitted = (
        int.from_bytes(info[place], "little") for place in (ACKNOWLEDGED, RECEIVED, RETRANSMITTED)
    )
    return acknowledged, received, retransmitted


def _send_queue_bytes(connection: socket.socket) -> int:
    """Bytes that were written and are not acknowledged yet (SIOCOUTQ)."""
    answer = fcntl.ioctl(connection, termios.TIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])


def _name(address: tuple[str, int]) -> str:
    """ADDRESS:PORT, the same for an IPv4 address of an IPv6 socket."""
    return f"{address[0].removeprefix('::ffff:')}:{address[1]}"
