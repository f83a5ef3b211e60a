"""What each TCP connection of this process has carried so far, as the kernel counts it: payload, without headers.

Whoever owns a connection may ask (TCP_INFO), so this needs no privilege and knows no library: Gloo's and Horovod's
connections are found like ours. Both ends are named, so that those of two nodes can be put together afterwards
(analysis/summary/traffic_matrix.py) without knowing anybody's address. One that is closed has lost its counts.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import termios
from dataclasses import dataclass

ACKNOWLEDGED, RECEIVED, REPEATED = slice(120, 128), slice(128, 136), slice(208, 216)
"""Where struct tcp_info of linux/tcp.h has tcpi_bytes_acked, _received and _retrans; the last since Linux 4.19."""


@dataclass(frozen=True)
class Connection:
    here: str
    """ADDRESS:PORT"""
    there: str
    sent_bytes: int
    """What has arrived, and what is on its way.

    Not tcpi_bytes_sent less what was sent again: what the own link's full queue drops at once is sent again without
    being counted as such, which on a link of 20 Mbit came to 14 %.
    """
    received_bytes: int
    repeated_bytes: int

    def row(self) -> tuple[str, str, int, int]:
        """As in an event's `connections`."""
        return (self.here, self.there, self.sent_bytes, self.received_bytes)


def read_connections() -> list[Connection] | None:
    """All that are open now; None where the kernel is too old to count them."""
    found = [_read(descriptor) for descriptor in map(int, os.listdir("/proc/self/fd"))]
    known = [one for one in found if one is not None]
    whole = [one for one in known if isinstance(one, Connection)]
    return whole if len(whole) == len(known) else None


def _read(descriptor: int) -> Connection | str | None:
    """None where it is no connection, or no longer one; the other end where its bytes are not known."""
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
            with socket.socket(fileno=os.dup(descriptor)) as open_one:
                if open_one.family in (socket.AF_INET, socket.AF_INET6):
                    state = open_one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                    here, there = _name(open_one.getsockname()), _name(open_one.getpeername())
                    counted = parse_tcp_info(state)
                    if counted is None:
                        return there
                    acknowledged, received, repeated = counted
                    sent = acknowledged + _waiting(open_one)
                    return Connection(here, there, sent, received, repeated)
    return None


def parse_tcp_info(state: bytes) -> tuple[int, int, int] | None:
    """Acknowledged, received, sent again. None from a kernel whose struct ends before that.

    Who opened a connection has its first message, which carries nothing, acknowledged as one byte.
    """
    if len(state) < REPEATED.stop:
        return None
    acknowledged, received, repeated = (
        int.from_bytes(state[place], "little") for place in (ACKNOWLEDGED, RECEIVED, REPEATED)
    )
    return acknowledged, received, repeated


def _waiting(connection: socket.socket) -> int:
    """Bytes that the kernel was given and that nobody has acknowledged yet (SIOCOUTQ)."""
    answer = fcntl.ioctl(connection, termios.TIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])


def _name(address: tuple[str, int]) -> str:
    """The same for both ends, also where one has an IPv6 socket for an IPv4 address."""
    return f"{address[0].removeprefix('::ffff:')}:{address[1]}"
