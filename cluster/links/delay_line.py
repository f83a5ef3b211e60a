"""A delay line: holds packets back in user space, where the kernel has no netem.

It is of the router between sites: packets that the router redirects to its TAP device are read,
and written back when their path's delay has passed. Then they arrive on that device, and from there
they go through the bucket of their path (router.py).

Large (GSO) packets stay large, and their checksums are left to the kernel, as on any virtual link.
"""

import contextlib
import ctypes
import fcntl
import gc
import os
import select
import struct
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from socket import inet_aton

from cluster.spec.links import Link
from cluster.spec.sites import Pair

DEVICE = "gw-hold"
FILE = Path("/dev/net/tun")
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x2, 0x1000, 0x4000
CHECKSUM, TSO4, TSO6 = 1, 2, 4
QUEUE_PACKETS = 8192
"""Between the kernel and this program."""
MOST_HELD_BYTES = 128 * 2**20
"""More are dropped, as a queue in a router would."""
LARGEST = 10 + 14 + 65536
"""A packet with the kernel's own header (struct virtio_net_hdr) and Ethernet's."""
ADDRESSES = slice(10 + 14 + 12, 10 + 14 + 20)
"""Of an IPv4 packet: sender, receiver."""
BATCH = 64
"""Packets that are read before those that are due are written."""
PR_SET_TIMERSLACK = 29

Delays = Mapping[bytes, float]
"""Addresses of sender and receiver -> seconds on this host."""


def delays(
    paths: Mapping[Pair, Link], addresses: Mapping[str, Sequence[str]]
) -> dict[bytes, float]:
    """Of both directions of every path that has a delay."""
    return {
        inet_aton(sender) + inet_aton(receiver): path.delay_s
        for pair, path in paths.items()
        if path.delay_s
        for here, there in (pair, pair[::-1])
        for sender in addresses[here]
        for receiver in addresses[there]
    }


def attach(address: str) -> int:
    """Make the device in this network namespace, with this MAC address; its descriptor."""
    device = os.open(FILE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), flags))
    fcntl.ioctl(device, TUNSETOFFLOAD, CHECKSUM | TSO4 | TSO6)
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    made = f"link set {DEVICE} address {address} txqueuelen {QUEUE_PACKETS} up"
    command = ["ip", *made.split()]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PATH": path})
    return device


def hurry() -> None:
    """Be woken in time on a busy host, where that is permitted."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    gc.disable()


def hold(device: int, delays: Delays) -> None:
    """Without end: every packet leaves when it has been held for its delay."""
    now = time.monotonic
    lines: dict[float, deque[tuple[float, bytes]]] = {
        delay: deque() for delay in {0.0, *delays.values()}
    }
    held = 0
    while True:
        due = min((line[0][0] for line in lines.values() if line), default=None)
        ready, _, _ = select.select(
            [device], [], [], None if due is None else max(0.0, due - now())
        )
        for _ in range(BATCH if ready else 0):
            try:
                packet = os.read(device, LARGEST)
            except BlockingIOError:
                break
            delay = delays.get(packet[ADDRESSES], 0.0)
            if held + len(packet) <= MOST_HELD_BYTES:
                held += len(packet)
                lines[delay].append((now() + delay, packet))
        moment = now()
        for line in lines.values():
            while line and line[0][0] <= moment:
                packet = line.popleft()[1]
                held -= len(packet)
                with contextlib.suppress(OSError):  # a packet that the kernel does not take
                    os.write(device, packet)
