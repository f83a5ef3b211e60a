"""Whether this node's link works, and which other nodes answer.

All but `probe` only reads what the kernel knows, and sends nothing.
"""

import contextlib
import errno
import fcntl
import select
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from cluster.spec.documents.heartbeat import LinkState

RETRANSMISSIONS = 3
"""In a row and unanswered; by TCP's timer the third is 1.4 s after the first transmission."""
PROBE_S = 2.5
"""Enough for a second attempt: TCP repeats a lost SYN after one second."""
CLOSED_PORT = 1
ANSWERS = (0, errno.ECONNREFUSED)
INTERFACE = "eth0"
SIOCGIFFLAGS = 0x8913
IFF_UP, IFF_RUNNING = 0x1, 0x40
FLAGS = struct.Struct("16sH14x")
"""struct ifreq of linux/if.h: name and flags."""


def read_link() -> LinkState:
    """State of eth0, by its flags: /sys may show another namespace's interfaces."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, FLAGS.pack(INTERFACE.encode(), 0))
        except OSError:
            return LinkState.MISSING
    _, flags = FLAGS.unpack(answer)
    return LinkState.UP if flags & IFF_UP and flags & IFF_RUNNING else LinkState.DOWN


def is_retransmitting() -> bool:
    """Whether a TCP connection of this network namespace waits for an acknowledgement in vain."""
    tables = (Path("/proc/self/net", name) for name in ("tcp", "tcp6"))
    return any(lacks_answer(line) for t in tables if t.exists() for line in t.open() if ":" in line)


def lacks_answer(line: str) -> bool:
    """A line of /proc/net/tcp: bytes in the send queue, and retransmissions without an answer."""
    fields = line.split()
    send_queue, retransmissions = int(fields[4].partition(":")[0], 16), int(fields[6], 16)
    return send_queue > 0 and retransmissions >= RETRANSMISSIONS


def probe(hosts: Mapping[int, str], port: int = CLOSED_PORT) -> set[int]:
    """Ranks of the hosts that answer within PROBE_S; from a closed port, the answer is a reset."""
    deadline = time.monotonic() + PROBE_S
    with contextlib.ExitStack() as opened:
        waiting: dict[int, tuple[int, socket.socket]] = {}
        poll = select.poll()
        for rank, host in hosts.items():
            connection = opened.enter_context(socket.socket())
            connection.setblocking(False)
            with contextlib.suppress(OSError):  # no name: the host is gone
                connection.connect_ex((socket.gethostbyname(host), port))
                waiting[connection.fileno()] = rank, connection
                poll.register(connection, select.POLLOUT)
        reached = set()
        is_late = False
        while waiting and not is_late:
            left_s = deadline - time.monotonic()
            is_late = left_s <= 0  # answers that came while this process had no core still count
            for descriptor, _ in poll.poll(max(0.0, left_s) * 1000):
                rank, connection = waiting.pop(descriptor)
                poll.unregister(descriptor)
                if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in ANSWERS:
                    reached.add(rank)
    return reached
