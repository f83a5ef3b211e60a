"""Payload bytes of one TCP connection of this process, as the kernel counts them (TCP_INFO).

The owner of a connection may read its counters, so this needs no privilege. Standard library only:
it is also on the path of users' programs.
"""

import _socket  # socket.socket itself is watched when it is closed
import fcntl
import os
import struct
import termios

ACKNOWLEDGED, RECEIVED, RETRANSMITTED = slice(120, 128), slice(128, 136), slice(208, 216)
"""Offsets of tcpi_bytes_acked, _received and _retrans in struct tcp_info (linux/tcp.h).

The last one exists since Linux 4.19.
"""


TRIES = 50


class UncountedError(Exception):
    """The kernel does not count the bytes of a connection."""


def read_connection(descriptor: int) -> tuple[str, str, int, int, int] | None:
    """Local and remote end, bytes sent, received and retransmitted; None for anything but an open
    TCP connection.

    Bytes sent are those acknowledged and those in the send queue. tcpi_bytes_sent minus
    retransmissions is too high: packets dropped by the node's own full queue are sent again without
    counting as retransmitted, 14 % of the bytes on a link of 20 Mbit/s.
    """
    try:
        opened = _socket.socket(fileno=os.dup(descriptor))
    except OSError:
        return None
    try:
        if opened.family not in (_socket.AF_INET, _socket.AF_INET6):
            return None
        local, remote = end_name(opened.getsockname()), end_name(opened.getpeername())
        sent, received, retransmitted = _count(opened)
        return local, remote, sent, received, retransmitted
    except OSError:
        return None
    finally:
        opened.close()


def _count(connection: _socket.socket) -> tuple[int, int, int]:
    """Bytes sent, received, retransmitted. What is acknowledged between the readings of the two
    parts of bytes sent would be in both or in neither: they are read until nothing was."""
    counted = _read_info(connection)
    for _ in range(TRIES):
        before, queued = counted, _send_queue(connection)
        counted = _read_info(connection)
        if counted[0] == before[0]:
            break
    return before[0] + queued, *counted[1:]


def _read_info(connection: _socket.socket) -> tuple[int, int, int]:
    info = connection.getsockopt(_socket.IPPROTO_TCP, _socket.TCP_INFO, 256)
    counted = parse_tcp_info(info)
    if counted is None:
        raise UncountedError
    return counted


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


def end_name(address: tuple[str, int]) -> str:
    """ADDRESS:PORT, the same for an IPv4 address of an IPv6 socket."""
    return f"{address[0].removeprefix('::ffff:')}:{address[1]}"


def _send_queue(connection: _socket.socket) -> int:
    """Bytes that were written and are not acknowledged yet (SIOCOUTQ)."""
    answer = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])
