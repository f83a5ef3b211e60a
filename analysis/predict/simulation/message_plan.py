"""The messages of all rounds, for the event simulator: one of each kind, and what it waits for.

Nodes that are alike, and whose partners are, do the same at the same time: one of each kind is
simulated, with the number of messages that share each link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from analysis.predict.simulation.fair_links import Ends
from analysis.predict.simulation.nodes import Node, chunk_sizes
from cluster.spec.schedules.messages import Flow, Message, Messages, each_message


def node_kinds(rounds: Sequence[Messages], nodes: Sequence[Node]) -> list[int]:
    """A number for each node: equal where the nodes are, and all that they exchange with whom.

    Begins with the nodes' own facts and tells apart those with other partners until no more differ.
    """
    kinds = _numbered(nodes)
    while True:
        partners: list[list[tuple[int, ...]]] = [[] for _ in kinds]
        for index, messages in enumerate(rounds):
            for place, flow in enumerate(messages):
                for source, destination in zip(flow.sources, flow.destinations, strict=True):
                    partners[source].append((index, place, 0, kinds[destination]))
                    partners[destination].append((index, place, 1, kinds[source]))
        refined = _numbered(
            [(kind, tuple(sorted(seen))) for kind, seen in zip(kinds, partners, strict=True)]
        )
        if max(refined) == max(kinds):
            return kinds
        kinds = refined


def _numbered(values: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def have_clashes(rounds: Sequence[Messages], kinds: Sequence[int]) -> bool:
    """Whether in one step several flows go between the same two kinds: each has its own counts."""
    for messages in rounds:
        seen: set[tuple[int, int, int]] = set()
        for flow in messages:
            ends = zip(flow.sources, flow.destinations, strict=True)
            pairs = {(kinds[source], kinds[destination]) for source, destination in ends}
            steps = range(flow.step, flow.step + flow.count)
            mine = {(*pair, step) for pair in pairs for step in steps}
            if seen & mine:
                return True
            seen |= mine
    return False


Weights = dict[tuple[int, int, int], tuple[int, int, int]]
"""Kinds of sender and receiver, step -> such messages of a sender, of a receiver, of all."""


def between_kinds(
    messages: Messages, kinds: Sequence[int], members: Counter[int]
) -> tuple[Messages, Weights]:
    """One message for all that go from nodes of one kind to nodes of another."""
    flows: list[Flow] = []
    weights: Weights = {}
    for flow in messages:
        pairs = Counter(
            (kinds[source], kinds[destination])
            for source, destination in zip(flow.sources, flow.destinations, strict=True)
        )
        for (source, destination), count in pairs.items():
            weight = (count // members[source], count // members[destination], count)
            for step in range(flow.step, flow.step + flow.count):
                weights[source, destination, step] = weight
        sources, destinations = zip(*pairs, strict=True)
        flows.append(replace(flow, sources=sources, destinations=destinations))
    return tuple(flows), weights


@dataclass
class Gate:
    """What the messages from one node to another wait for, chunk by chunk: messages, and
    computing."""

    source: int
    waits_for: int
    """Messages and computing nodes."""
    arrived: list[int]
    """By chunk."""
    open: int = 0
    """Chunks for which all have arrived."""
    messages: list[int] = field(default_factory=list)

    def arrive(self, chunks: range) -> bool:
        """Count one of those it waits for; whether it opened further."""
        for chunk in chunks:
            self.arrived[chunk] += 1
        before = self.open
        while self.open < len(self.arrived) and self.arrived[self.open] == self.waits_for:
            self.open += 1
        return self.open > before


@dataclass
class Plan:
    """All messages of all rounds, and what each of them waits for. Lists are by message."""

    kinds: int
    source: list[int] = field(default_factory=list)
    destination: list[int] = field(default_factory=list)
    weight: list[tuple[int, int, int]] = field(default_factory=list)
    """How many are like it: of the sender, of the receiver, of all."""
    senders: list[int] = field(default_factory=list)
    """Of messages to its receiver in its step."""
    ends: list[Ends] = field(default_factory=list)
    chunks: list[tuple[float, ...]] = field(default_factory=list)
    """Bytes of each."""
    gate: list[Gate] = field(default_factory=list)
    opens: list[list[Gate]] = field(default_factory=list)
    """The gates that wait for it."""
    round_of: list[int] = field(default_factory=list)
    before: list[int | None] = field(default_factory=list)
    """The message before it on the same connection, and the one after: they leave in this order."""
    after: list[int | None] = field(default_factory=list)
    computing_opens: dict[tuple[int, int], list[Gate]] = field(default_factory=dict)
    """Round and node -> the gates that wait for its computing."""
    part: list[list[int]] = field(default_factory=list)
    """By round: how many messages each node sends or receives."""

    @classmethod
    def of(
        cls,
        rounds: Sequence[tuple[Messages, Weights]],
        kinds: int,
        notice_s: Callable[[int, int], float] = lambda _source, _destination: 0.0,
    ) -> Plan:
        """`notice_s` is how long a node's word that it is ready takes to one that sends to it."""
        plan = cls(kinds)
        for index, (messages, weights) in enumerate(rounds):
            plan._add_round(index, each_message(messages), weights, notice_s)
        return plan

    def _add_round(
        self,
        index: int,
        messages: Sequence[Message],
        weights: Weights,
        notice_s: Callable[[int, int], float],
    ) -> None:
        first = len(self.source)
        part = [0] * self.kinds
        steps = max((message.step for message in messages), default=0) + 1
        last: dict[tuple[int, int], int] = {}
        senders: Counter[tuple[int, int]] = Counter()
        for (_, destination, step), weight in weights.items():
            senders[destination, step] += weight[1]
        gates: dict[tuple[Any, ...], Gate] = {}
        for place, message in enumerate(messages):
            chunks = chunk_sizes(message, steps)
            connection = message.source, message.destination
            waits_for = [first + other for other in message.waits_for]
            asked_after = last.get(connection)
            if asked_after is not None and not message.cuts and notice_s(*connection):
                waits_for += [asked_after] if asked_after not in waits_for else []
            key = (connection, tuple(waits_for), len(chunks))
            if key not in gates:
                ready = set(connection)
                gate = gates[key] = Gate(
                    message.source, len(ready) + len(waits_for), [0] * len(chunks)
                )
                for node in ready:
                    self.computing_opens.setdefault((index, node), []).append(gate)
                for other in waits_for:
                    self.opens[other].append(gate)
            gates[key].messages.append(first + place)
            self.source.append(message.source)
            self.destination.append(message.destination)
            weight = weights[message.source, message.destination, message.step]
            self.weight.append(weight)
            self.senders.append(senders[message.destination, message.step])
            self.ends.append((message.source, message.destination, weight))
            self.chunks.append(chunks)
            self.gate.append(gates[key])
            self.before.append(last.get(connection))
            self.after.append(None)
            if connection in last:
                self.after[last[connection]] = first + place
            last[connection] = first + place
            self.opens.append([])
            self.round_of.append(index)
            part[message.source] += 1
            part[message.destination] += 1
        self.part.append(part)
