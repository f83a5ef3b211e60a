"""Predicted bytes: what each rank sends and receives in a round, from the message schedule. Pure.

    python3 -m analysis.theory --workers 6 --model-bytes 87M

Payload, and apart from it the library's framing: what Gloo adds to every message (144 bytes). Not
predicted are packet headers and acknowledgements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain

from cluster.spec.documents.records import HEADER_BYTES, SEGMENT_BYTES
from cluster.spec.exchange.strategies import facts_of, messages
from cluster.spec.links import Link
from cluster.spec.schedules.messages import (
    Flow,
    Messages,
    MessageSchedule,
    Setting,
    broadcast_of_buffers,
    framing,
)
from cluster.spec.schedules.pairwise import Repeat
from cluster.spec.schedules.recorded import RecordedSchedule
from cluster.spec.schedules.unpaced import header_setting

WIRE_PER_PAYLOAD = (SEGMENT_BYTES + HEADER_BYTES) / SEGMENT_BYTES


@dataclass(frozen=True)
class Prediction:
    """Bytes a round, by rank; a server is the rank after the last worker's."""

    workers: int
    sent_by_rank: tuple[float, ...]
    received_by_rank: tuple[float, ...]

    @property
    def sent_mean(self) -> float:
        """Over workers."""
        return sum(self.sent_by_rank[: self.workers]) / self.workers

    @property
    def sent_max(self) -> float:
        """Of the busiest node, which may be a server."""
        return max(self.sent_by_rank)

    @property
    def received_mean(self) -> float:
        return sum(self.received_by_rank[: self.workers]) / self.workers

    @property
    def received_max(self) -> float:
        return max(self.received_by_rank)


def predict(
    strategy: str, setting: Setting, rounds: int = 1, recorded: RecordedSchedule | None = None
) -> Prediction:
    """Bytes sent and received by each rank per round, averaged over rounds 0 to rounds-1.

    `recorded` is the message schedule of a strategy of the user's own.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be 1 or more, not {rounds}")
    facts = facts_of(strategy)
    nodes = setting.workers + facts.has_server
    if recorded is None:
        found = _exchanged(facts.messages, facts.repeat(setting), setting, nodes, rounds)
    else:
        parts = (ByRank.of(flows, nodes).times(n) for flows, n in recorded.counted(rounds))
        found = reduce(ByRank.plus, parts)
    buffers = broadcast_of_buffers(setting, 0) if facts.exchanges else ()
    if buffers:
        found = found.plus(ByRank.of(buffers, nodes).times(rounds))
    return _mean(found, setting, rounds)


def predict_framing(strategy: str, setting: Setting, rounds: int = 1) -> Prediction:
    """The same of what Gloo adds to the messages of these rounds; or of the headers of frames."""
    if facts_of(strategy).unpaced:
        return predict(strategy, header_setting(strategy, setting), rounds)

    def added(index: int, setting: Setting) -> Messages:
        found = (messages(strategy, index, bucket) for bucket in setting.by_bucket)
        return tuple(chain.from_iterable(map(framing, found)))

    facts = facts_of(strategy)
    nodes = setting.workers + facts.has_server
    found = _exchanged(added, facts.repeat(setting), setting, nodes, rounds)
    return _mean(found, setting, rounds)


def _mean(found: ByRank, setting: Setting, rounds: int) -> Prediction:
    sent, received = (
        tuple(value / (found.parts * rounds) for value in values)
        for values in (found.sent, found.received)
    )
    return Prediction(setting.workers, sent, received)


def lower_bound_s(
    predicted: Prediction, links: Sequence[Link | None], bursts: Sequence[float] = ()
) -> float:
    """Least mean time of the rounds predicted: bytes over rate of the busiest link, with headers.

    A bound of the mean, not of each round: where rounds differ (pairwise), one may be shorter.
    A link carries its rates in both directions at the same time; None: it is not throttled.
    Latency, waiting for messages and computing are left out. Packets are full: 1448 bytes of
    payload travel as 1514. A token bucket passes its burst at once in every round.
    """
    times = [
        (size * WIRE_PER_PAYLOAD - burst) * 8 / rate_bit
        for sent, received, link, burst in zip(
            predicted.sent_by_rank,
            predicted.received_by_rank,
            links,
            bursts or [0.0] * len(links),
            strict=True,
        )
        if link is not None
        for size, rate_bit in ((sent, link.rate_bit), (received, link.down_bit))
    ]
    return max(0.0, *times) if times else 0.0


# ------------------------------------------------------------------------------- adding up by rank


@dataclass(frozen=True)
class ByRank:
    """Bytes of some rounds as whole multiples of 1/parts byte, so that sums are exact."""

    sent: list[int]
    received: list[int]
    parts: int

    @classmethod
    def of(cls, flows: Sequence[Flow], nodes: int) -> ByRank:
        parts = math.lcm(*(flow.pair_bytes.denominator for flow in flows))
        sent, received = [0] * nodes, [0] * nodes
        for flow in flows:
            amount = int(flow.pair_bytes * parts)
            for source in flow.sources:
                sent[source] += amount
            for destination in flow.destinations:
                received[destination] += amount
        return cls(sent, received, parts)

    def plus(self, other: ByRank) -> ByRank:
        parts = math.lcm(self.parts, other.parts)
        a, b = parts // self.parts, parts // other.parts
        return ByRank(
            [a * mine + b * more for mine, more in zip(self.sent, other.sent, strict=True)],
            [a * mine + b * more for mine, more in zip(self.received, other.received, strict=True)],
            parts,
        )

    def times(self, count: int) -> ByRank:
        """The same round, so many times."""
        sent, received = [count * n for n in self.sent], [count * n for n in self.received]
        return ByRank(sent, received, self.parts)

    @property
    def is_uniform(self) -> bool:
        return len(set(self.sent)) == len(set(self.received)) == 1


def _exchanged(
    exchange: MessageSchedule, repeat: Repeat, setting: Setting, nodes: int, rounds: int
) -> ByRank:
    """All rounds together: the first ones up to a repetition, as often as they come."""
    first = range(min(repeat.rounds, rounds))
    same = (range(index, rounds, repeat.rounds) for index in first)
    parts = (_repeated(exchange, repeat.shift, setting, nodes, each) for each in same)
    return reduce(ByRank.plus, parts)


def _repeated(
    exchange: MessageSchedule, shift: int | None, setting: Setting, nodes: int, same: range
) -> ByRank:
    """Of rounds that differ only in their ranks.

    Only random groups of unequal size have to be followed through all of them.
    """
    times = len(same)
    first = ByRank.of(exchange(same[0], setting), nodes)
    if shift == 0 or first.is_uniform:
        return first.times(times)
    if shift is None:
        return ByRank.of([flow for index in same for flow in exchange(index, setting)], nodes)
    sent, received = _shifted_sum(first.sent, times), _shifted_sum(first.received, times)
    return ByRank(sent, received, first.parts)


def _shifted_sum(values: list[int], times: int) -> list[int]:
    """The sum of `times` copies, the k-th of them moved on by k places round the ring."""
    size = len(values)
    turns, rest = divmod(times, size)
    whole = turns * sum(values)
    window = sum(values[-k % size] for k in range(rest))
    totals = []
    for rank in range(1, size + 1):
        totals.append(whole + window)
        window += values[rank % size] - values[(rank - rest) % size]
    return totals
