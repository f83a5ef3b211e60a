"""What each TCP connection of this process has carried so far, as the kernel counts it: payload, without headers.

Whoever owns a connection may ask (TCP_INFO), so this needs no privilege and knows no library: Gloo's and Horovod's
connections are found like ours. Both ends are named, so that those of two nodes can be put together afterwards
(analysis/pairs.py) without knowing anybody's address. One that is closed has lost its counts.
"""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass

RECEIVED, SENT, REPEATED = slice(128, 136), slice(200, 208), slice(208, 216)
"""Where struct tcp_info of linux/tcp.h has tcpi_bytes_received, _sent and _retrans; the last two since Linux 4.19."""


@dataclass(frozen=True)
class Connection:
    here: str
    """ADDRESS:PORT"""
    there: str
    sent_bytes: int
    """The first time; what was sent again stands beside it."""
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
                    return there if counted is None else Connection(here, there, *counted)
    return None


def parse_tcp_info(state: bytes) -> tuple[int, int, int] | None:
    """Sent the first time, received, sent again. None from a kernel whose struct ends before that."""
    if len(state) < REPEATED.stop:
        return None
    sent, received, repeated = (
        int.from_bytes(state[place], "little") for place in (SENT, RECEIVED, REPEATED)
    )
    return sent - repeated, received, repeated


def _name(address: tuple[str, int]) -> str:
    """The same for both ends, also where one has an IPv6 socket for an IPv4 address."""
    return f"{address[0].removeprefix('::ffff:')}:{address[1]}"
