"""What a node's own interfaces and its TCP have counted so far, as the process on the node sees it.

Independent of the collector, which reads the same interfaces from outside and by other means.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from cluster.spec.records import HEADER_BYTES, NOT_COUNTED, Counters, total

TCP_HEADERS = 52
"""IPv4 20, TCP 20, timestamps 12: what of a packet's MTU is not payload."""

ETHERNET_HEADER = HEADER_BYTES - TCP_HEADERS


def read_interfaces(sharers: int = 1) -> Counters:
    """All of them but lo and the shaper's: what a shaped node receives passes two, and must count once.

    Workers that share a host talk to each other through its lo, and to the others through the rest: so it
    counts there, for all of them together, with whatever other programs say there. The kernel counts no Ethernet header
    on lo; it does here, so that a packet is the same on every interface.
    """
    left_out = NOT_COUNTED if sharers == 1 else NOT_COUNTED[1:]
    interfaces = psutil.net_io_counters(pernic=True, nowrap=False)
    counted = []
    for name, one in interfaces.items():
        if name not in left_out:
            missing = ETHERNET_HEADER if name == "lo" else 0
            sent = one.bytes_sent + missing * one.packets_sent
            received = one.bytes_recv + missing * one.packets_recv
            counted.append(Counters(sent, one.packets_sent, received, one.packets_recv))
    return total(counted)


def own_network() -> str:
    """Whose interfaces these are: processes on one host, or in one network namespace of it, say the same."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/net')}"


def read_segments() -> int:
    """Segments with data that TCP has sent in this network namespace, the first time."""
    return _read_tcp("netstat", "TcpExt:", "TCPOrigDataSent")


def full_segment(everybody_here: bool = False) -> int:
    """Payload of the largest TCP segment on this node's interfaces; of lo where all workers share this host."""
    interfaces = psutil.net_if_stats()
    if everybody_here and "lo" in interfaces:
        return interfaces["lo"].mtu - TCP_HEADERS
    units = [one.mtu for name, one in interfaces.items() if name not in NOT_COUNTED]
    return min(units, default=1500) - TCP_HEADERS


def _read_tcp(file: str, table: str, name: str) -> int:
    with open(f"/proc/self/net/{file}", encoding="ascii") as lines:
        names, numbers = (line.split() for line in lines if line.startswith(table))
    return int(numbers[names.index(name)])
