"""What is written to a run folder: counters, samples, events and the summary. Stdlib only."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SCHEMA = 1

HEADER_BYTES = 66
"""Ethernet 14 + IPv4 20 + TCP 20 + timestamps 12: the headers of one packet as the kernel counts it.

A large (GSO) packet counts once, with one header, and a bare acknowledgement is just a header, so
bytes - 66 x packets is the payload on shaped and free links alike.
"""

LINK_STATISTICS = ("sent_drops", "sent_overlimits", "received_drops", "received_overlimits")
"""Packets that a shaped link dropped, and times it had to hold one back."""

SEGMENT_BYTES = 1448
"""Payload of a full TCP segment on Ethernet, with the usual options."""

NOT_COUNTED = ("lo", "gw-ingress")
"""Interfaces through which nothing reaches another node; the second is cluster/links/tc.py's."""

PHASES = ("setup", "train", "evaluate", "finish")


@dataclass(frozen=True, slots=True)
class Counters:
    """Cumulative counters of a node's interfaces (or, after a subtraction, of a span of time)."""

    sent_bytes: int = 0
    sent_packets: int = 0
    received_bytes: int = 0
    received_packets: int = 0

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


def read_node_counters(process: int) -> Counters:
    """All interfaces of the network namespace that a process lives in, but lo and the shaper's.

    What a shaped node receives passes eth0 and then the shaper's device: it must count once.
    """
    with open(f"/proc/{process}/net/dev", encoding="ascii") as file:
        interfaces = parse_net_dev(file.read())
    return total(counters for name, counters in interfaces.items() if name not in NOT_COUNTED)


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of one node's counters by one source (`kernel` or `docker`)."""

    t: float
    source: str
    node: str
    counters: Counters

    COLUMNS = ("t", "source", "node", *COUNTER_FIELDS)

    def row(self) -> tuple[Any, ...]:
        return (f"{self.t:.4f}", self.source, self.node, *self.counters.values())

    @classmethod
    def from_row(cls, row: list[str]) -> Sample:
        t, source, node, *numbers = row
        return cls(float(t), source, node, Counters(*(int(number) for number in numbers)))


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What the driver says of one GPU now; None is what it does not say. Bytes are cumulative, as with Counters."""

    utilisation_percent: int | None = None
    """Of the last moments (a sixth of a second to a second), the share in which anything was computed."""
    memory_bytes: int | None = None
    pcie_sent_bytes: int | None = None
    pcie_received_bytes: int | None = None
    pcie_sent_rate: int | None = None
    """Bytes a second, over 20 ms: from drivers that do not count them."""
    pcie_received_rate: int | None = None
    nvlink_sent_bytes: int | None = None
    """Payload, all links of the GPU together."""
    nvlink_received_bytes: int | None = None


GPU_FIELDS = tuple(f.name for f in dataclasses.fields(GpuReading))


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One reading of one GPU of a node."""

    t: float
    node: str
    gpu: int
    reading: GpuReading

    COLUMNS = ("t", "node", "gpu", *GPU_FIELDS)

    def row(self) -> tuple[Any, ...]:
        values = dataclasses.astuple(self.reading)
        cells = ("" if value is None else value for value in values)
        return (f"{self.t:.4f}", self.node, self.gpu, *cells)

    @classmethod
    def from_row(cls, row: list[str]) -> GpuSample:
        t, node, gpu, *cells = row
        reading = GpuReading(*(int(cell) if cell else None for cell in cells))
        return cls(float(t), node, int(gpu), reading)


def event(kind: str, **values: Any) -> dict[str, Any]:
    """One line of events/node<k>.jsonl.

    hello   schema, node, rank, role, workers, network (the same where interfaces are), segment_bytes; a worker's
            also host, sharers (workers that share its interfaces), model_bytes, buffer_bytes, parameters
    joined  order: where a launcher gives workers ranks of its own (Horovod), ours in the order of its
    phase   phase, epoch (or null), counters, repeated, segments, connections: entered now, with the node's own
            counters; connections are [here, there, sent, received] of each that is open, or null (an old kernel)
    rest    began and the same counters: before and after a pause in which nothing is exchanged
    step    epoch, step, loss, correct, step_s, data_s, compute_s, exchange_s (the last two null for ddp)
    epoch   epoch, accuracy, loss, consensus_distance: of the average of all workers' models
    result  accuracy, loss, own_accuracy, consensus_distance, samples_seen, steps, rounds
    end     the same counters: the last reading, all connections closed
    error   message: why this node gave up
    news    text: for the person who waits, from a launcher's own node
    """
    document: dict[str, Any] = _finite({"event": kind, "t": round(time.time(), 4), **values})
    return document


@dataclass(frozen=True, kw_only=True)
class Summary:
    """summary.json, the contract other programs read (DESIGN, section 4). Absent is null."""

    schema: int = SCHEMA
    session: str
    run: str
    status: str
    error: str | None = None
    spec: dict[str, Any]
    model_bytes: int | None = None
    steps: int | None = None
    rounds: int | None = None
    epochs: int | None = None
    samples_seen: int | None = None
    accuracy: float | None = None
    loss: float | None = None
    accuracy_by_worker: list[float] | None = None
    consensus_distance: float | None = None
    curve: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    bytes: dict[str, Any] | None = None
    per_step: dict[str, Any] | None = None
    control: dict[str, Any] | None = None
    peers: dict[str, Any] | None = None
    counters: dict[str, Any] | None = None
    seconds: dict[str, Any] | None = None
    links: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    network_activity_sum: int | None = None
    training: dict[str, Any] | None = None
    gpus: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = _finite(dataclasses.asdict(self))
        return document


def _finite(value: Any) -> Any:
    """JSON has no NaN or infinity: the loss of a run that diverged is null."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
