"""Counters of interfaces, GPUs and the host's cores: rows of samples, gpu_samples, host (.csv)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cluster.spec.documents.codec import LARGEST, LARGEST_NUMBER

HEADER_BYTES = 66
"""Ethernet 14 + IPv4 20 + TCP 20 + timestamps 12: the headers of a packet, as the kernel counts.

A large (GSO) packet counts once, with one header, and a bare acknowledgement is just a header, so
bytes - 66 x packets is the payload on shaped and free links alike.
"""

SEGMENT_BYTES = 1448
"""Payload of a full TCP segment on Ethernet, with the usual options."""

NOT_COUNTED = ("lo", "gw-ingress")
"""Interfaces through which nothing reaches another node; the second is cluster/links/tc.py's."""

COUNTED_VARIABLE = "GRADWIRE_COUNTED"
"""Of a node's environment: the one interface that is counted, where others lead elsewhere."""

PHASES = ("setup", "train", "evaluate", "finish", "recover")


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of a node's interfaces: cumulative, or of a span of time after a subtraction."""

    sent_bytes: int = 0
    """Bytes sent, headers included."""
    sent_packets: int = 0
    """Packets sent, as the kernel counts them: a large (GSO) packet is one."""
    received_bytes: int = 0
    """Bytes received, headers included."""
    received_packets: int = 0
    """Packets received."""

    @property
    def sent_payload(self) -> int:
        return self.sent_bytes - HEADER_BYTES * self.sent_packets

    @property
    def received_payload(self) -> int:
        return self.received_bytes - HEADER_BYTES * self.received_packets

    def __add__(self, other: Counters) -> Counters:
        return Counters(*(a + b for a, b in zip(self.values(), other.values(), strict=True)))

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*(a - b for a, b in zip(self.values(), other.values(), strict=True)))

    def values(self) -> tuple[int, int, int, int]:
        return (self.sent_bytes, self.sent_packets, self.received_bytes, self.received_packets)

    def swapped(self) -> Counters:
        """The same traffic seen from the other end of the cable."""
        return Counters(
            self.received_bytes, self.received_packets, self.sent_bytes, self.sent_packets
        )


COUNTER_FIELDS = tuple(f.name for f in dataclasses.fields(Counters))


def total(counters: Iterable[Counters]) -> Counters:
    return sum(counters, Counters())


def parse_net_dev(text: str) -> dict[str, Counters]:
    """The interfaces in the text of a /proc/.../net/dev, lo included."""
    interfaces = {}
    for line in text.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        fields = [int(number) for number in numbers.split()]
        interfaces[name.strip()] = Counters(
            sent_bytes=fields[8],
            sent_packets=fields[9],
            received_bytes=fields[0],
            received_packets=fields[1],
        )
    return interfaces


def is_counted(interface: str, only: str | None) -> bool:
    """Of a node that exchanges through all of its interfaces, or through one.

    What a shaped node receives passes eth0 and then the shaper's device: it must count once.
    """
    return interface == only if only else interface not in NOT_COUNTED


def read_node_counters(process: int, only: str | None = None) -> Counters:
    """The counted interfaces of the network namespace that a process lives in."""
    with open(f"/proc/{process}/net/dev", encoding="ascii") as file:
        interfaces = parse_net_dev(file.read())
    return total(counters for name, counters in interfaces.items() if is_counted(name, only))


def read_all_counters(processes: Mapping[int, int], only: str | None = None) -> dict[int, Counters]:
    """Rank -> counters, of the nodes (rank -> process) that have not ended."""
    readings = {}
    for rank, process in processes.items():
        with contextlib.suppress(OSError):
            readings[rank] = read_node_counters(process, only)
    return readings


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of one node's counters."""

    t: float
    """Unix time, seconds."""
    source: str
    """Who counted: `kernel` (ten readings an interval) or `docker` (at most one)."""
    node: str
    """The node's name."""
    counters: Counters
    """Cumulative, all interfaces of the node but `lo`."""

    COLUMNS = ("t", "source", "node", *COUNTER_FIELDS)

    def row(self) -> tuple[str | int, ...]:
        return (f"{self.t:.4f}", self.source, self.node, *self.counters.values())

    @classmethod
    def from_row(cls, row: list[str]) -> Sample:
        t, source, node, *numbers = row
        counters = Counters(*(_count(number) for number in numbers))
        return cls(_time(t), source, node, counters)


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The driver's reading of a GPU; None is what it does not tell. Bytes are cumulative."""

    utilisation_percent: int | None = None
    """Share of the last 1/6 s to 1 s in which a kernel ran, percent."""
    memory_bytes: int | None = None
    """Memory in use."""
    pcie_sent_bytes: int | None = None
    """Bytes sent over PCIe."""
    pcie_received_bytes: int | None = None
    """Bytes received over PCIe."""
    pcie_sent_rate: int | None = None
    """Bytes a second over the last 20 ms, from drivers that do not count bytes."""
    pcie_received_rate: int | None = None
    """The same for bytes received."""
    nvlink_sent_bytes: int | None = None
    """Payload sent over all NVLinks of the GPU."""
    nvlink_received_bytes: int | None = None
    """Payload received over all NVLinks of the GPU."""


GPU_FIELDS = tuple(f.name for f in dataclasses.fields(GpuReading))


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One reading of one GPU of a node."""

    t: float
    """Unix time, seconds."""
    node: str
    """The node's name."""
    gpu: int
    """Index of the GPU in its node."""
    reading: GpuReading
    """What the driver told."""

    COLUMNS = ("t", "node", "gpu", *GPU_FIELDS)

    def row(self) -> tuple[str | int, ...]:
        values = dataclasses.astuple(self.reading)
        cells = ("" if value is None else value for value in values)
        return (f"{self.t:.4f}", self.node, self.gpu, *cells)

    @classmethod
    def from_row(cls, row: list[str]) -> GpuSample:
        t, node, gpu, *cells = row
        reading = GpuReading(*(_count(cell) if cell else None for cell in cells))
        return cls(_time(t), node, _count(gpu), reading)


@dataclass(frozen=True, slots=True)
class HostSample:
    """One reading of the host that the nodes share; seconds are cumulative, all cores together."""

    t: float
    """Unix time, seconds."""
    cores: int
    """Number of cores that are switched on."""
    load: float | None
    """Processes that run or are ready to run, mean over the last minute."""
    busy_s: float
    """Seconds in which cores ran any process, the nodes' included."""
    steal_s: float
    """Seconds in which a virtual machine's cores were ready to run and its host ran others."""
    pressure_s: float | None
    """Seconds in which any process waited for a core; null without `/proc/pressure/cpu`."""

    COLUMNS = ("t", "cores", "load", "busy_s", "steal_s", "pressure_s")

    def row(self) -> tuple[str, ...]:
        others = (self.cores, self.load, self.busy_s, self.steal_s, self.pressure_s)
        return (f"{self.t:.4f}", *("" if value is None else f"{value:.9g}" for value in others))

    @classmethod
    def from_row(cls, row: list[str]) -> HostSample:
        t, cores, load, busy_s, steal_s, pressure_s = row
        return cls(
            _time(t),
            _count(cores),
            _amount(load) if load else None,
            _amount(busy_s),
            _amount(steal_s),
            _amount(pressure_s) if pressure_s else None,
        )


def _amount(text: str) -> float:
    amount = float(text)
    if not 0 <= amount <= LARGEST_NUMBER:  # false for NaN, too
        raise ValueError(f"must be a number from 0 on, not {text:.20}")
    return amount


def _time(text: str) -> float:
    t = float(text)
    if not abs(t) <= LARGEST_NUMBER:  # false for NaN, too
        raise ValueError(f"t must be a time, not {text:.20}")
    return t


def _count(text: str) -> int:
    count = int(text)
    if not 0 <= count <= LARGEST:
        raise ValueError(f"a counter must be between 0 and {LARGEST}, not {text:.20}")
    return count
