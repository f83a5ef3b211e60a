"""The node's own interface and TCP counters, read by the worker.

The collector reads them from the host: with Docker the same interfaces, with namespaces the other
ends of their veth pairs.
"""

import os
from pathlib import Path

import psutil

from cluster.spec.documents.records import (
    COUNTED_VARIABLE,
    HEADER_BYTES,
    Counters,
    is_counted,
    total,
)

TCP_HEADERS = 52
"""IPv4 20, TCP 20, timestamps 12: the part of a packet's MTU that is not payload."""

ETHERNET_HEADER = HEADER_BYTES - TCP_HEADERS


def read_interfaces(workers_on_host: int = 1) -> Counters:
    """The sum over all interfaces but lo and the shaper's, through which traffic passes again.

    With several workers on a host lo is included, because they exchange through it; other programs'
    traffic on lo is then included too. The kernel counts no Ethernet header on lo: it is added
    here, so that a packet has the same size on every interface.
    """
    only = os.environ.get(COUNTED_VARIABLE)
    interfaces = psutil.net_io_counters(pernic=True, nowrap=False)
    counted = []
    for name, raw in interfaces.items():
        if is_counted(name, only) or (name == "lo" and workers_on_host > 1):
            missing = ETHERNET_HEADER if name == "lo" else 0
            sent = raw.bytes_sent + missing * raw.packets_sent
            received = raw.bytes_recv + missing * raw.packets_recv
            counted.append(Counters(sent, raw.packets_sent, received, raw.packets_recv))
    return total(counted)


def network_id() -> str:
    """Identifies the network namespace: equal for processes that share its interfaces."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/net')}"


def read_segments() -> int:
    """TCP segments with data sent in this network namespace, without retransmissions."""
    return read_tcp("TCPOrigDataSent")


def read_tcp(name: str) -> int:
    """A counter of TCP in this network namespace, by its name in /proc/net/netstat."""
    with open("/proc/self/net/netstat", encoding="ascii") as lines:
        names, numbers = (line.split() for line in lines if line.startswith("TcpExt:"))
    return int(numbers[names.index(name)])


def full_segment_bytes(all_workers_here: bool = False) -> int:
    """Payload of a full TCP segment on this node's interfaces, or on lo if all workers are here."""
    interfaces = psutil.net_if_stats()
    if all_workers_here and "lo" in interfaces:
        return interfaces["lo"].mtu - TCP_HEADERS
    mtus = [stats.mtu for name, stats in interfaces.items() if is_counted(name, None)]
    return min(mtus, default=1500) - TCP_HEADERS
