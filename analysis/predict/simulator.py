"""An event simulator: when the messages of a run's rounds leave and arrive on given links. Pure.

A node computes, then takes part in the round's messages as its message schedule says, and computes
again when all of its messages of the round have arrived or left. Messages share links fairly
(max-min): each is limited by what its sender's link has to give, what its receiver's link takes,
and what the host copies for all nodes together. A message that waits for others (Message.waits_for)
starts `message_s` after the last of them has arrived; one with parts does so part by part. A node
handles messages that start at the same time one after the other.

Several rounds are simulated as one: a node that is late in one round is late for its partners of
the next, while others go on.

A link is throttled by a token bucket: after a pause up to `burst_bytes` pass at once.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.predict import permutations
from analysis.predict.nodes import Costs, Floats, Node, Timeline, chunk_count, last_stages
from cluster.spec.schedules.messages import Flow, Message, Messages, each_message, step_count

Places = NDArray[np.int64]

MANY = 5_000
"""Messages, beyond which rounds without shared links are simulated as arrays."""
FEW = 10
"""The same where one node of each kind is simulated."""
DATA_ROWS = 3
"""Of what a message uses: its sender's link, its receiver's, the host. Then come links that carry
its acknowledgements, which take their share but hold nothing up."""
LINE_RATE = 5e9
"""Bytes per second where nothing limits a message: memory."""
RELATIVE = 1e-9
"""Events that are nearer than this, relative to the time passed, are one."""


def simulate(
    schedule: Callable[[int], Messages], nodes: Sequence[Node], rounds: int, costs: Costs
) -> Timeline:
    """What `rounds` rounds take; schedule(t) has the messages of round t.

    Where a round has several buckets (Node.earlier_s), schedule(t) are the messages of the t-th
    bucket of all rounds.

    Nodes that are alike, and whose partners are, do the same at the same time: one of each kind is
    simulated, with the number of messages that share each link. Messages from one node to several
    of a kind start when the last of them is handled.
    """
    flows = [schedule(index) for index in range(rounds * len(nodes[0].earlier_s))]
    steps = sum(step_count(messages) for messages in flows)
    several = len(set(nodes)) > 1
    if several and steps * len(nodes) > MANY and all(map(permutations.is_permutation, flows)):
        return permutations.simulate(flows, nodes, costs)
    kinds = node_kinds(flows, nodes)
    first = [nodes[kinds.index(kind)] for kind in range(max(kinds) + 1)]
    members = Counter(kinds)
    between = [_between_kinds(messages, kinds, members) for messages in flows]
    if steps > FEW and math.isinf(costs.bytes_per_s):
        alike = [messages for messages, _ in between]
        if all(map(permutations.is_permutation, flows)):
            found = permutations.simulate(alike, first, costs)
            return Timeline(found.computed[:, kinds], found.exchanged[:, kinds])
    found = _Simulation(_Plan.of(between, len(first)), first, costs).run()
    return Timeline(found.computed[:, kinds], found.exchanged[:, kinds])


# ------------------------------------------------------------------------------------------- kinds


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


Weights = dict[tuple[int, int, int], tuple[int, int, int]]
"""Kinds of sender and receiver, step -> such messages of a sender, of a receiver, of all."""


def _between_kinds(
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


# -------------------------------------------------------------------------------------------- plan


@dataclass
class _Gate:
    """What the messages of one node wait for, chunk by chunk: messages, and computing."""

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
class _Plan:
    """All messages of all rounds, and what each of them waits for. Lists are by message."""

    kinds: int
    source: list[int] = field(default_factory=list)
    destination: list[int] = field(default_factory=list)
    weight: list[tuple[int, int, int]] = field(default_factory=list)
    """How many are like it: of the sender, of the receiver, of all."""
    bytes: list[float] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)
    gate: list[_Gate] = field(default_factory=list)
    opens: list[list[_Gate]] = field(default_factory=list)
    """The gates that wait for it."""
    round_of: list[int] = field(default_factory=list)
    before: list[int | None] = field(default_factory=list)
    """The message before it on the same connection, and the one after: they leave in this order."""
    after: list[int | None] = field(default_factory=list)
    computing_opens: dict[tuple[int, int], list[_Gate]] = field(default_factory=dict)
    """Round and node -> the gates that wait for its computing."""
    part: list[list[int]] = field(default_factory=list)
    """By round: how many messages each node sends or receives."""

    @classmethod
    def of(cls, rounds: Sequence[tuple[Messages, Weights]], kinds: int) -> _Plan:
        plan = cls(kinds)
        for index, (messages, weights) in enumerate(rounds):
            plan._add_round(index, each_message(messages), weights)
        return plan

    def _add_round(self, index: int, messages: Sequence[Message], weights: Weights) -> None:
        first = len(self.source)
        part = [0] * self.kinds
        steps = max((message.step for message in messages), default=0) + 1
        last: dict[tuple[int, int], int] = {}
        gates: dict[tuple[Any, ...], _Gate] = {}
        for place, message in enumerate(messages):
            size = float(message.bytes)
            chunks = chunk_count(message.parts, steps)
            ready = {message.source, message.destination}
            key = (tuple(sorted(ready)), message.waits_for, chunks)
            if key not in gates:
                gate = gates[key] = _Gate(len(ready) + len(message.waits_for), [0] * chunks)
                for node in ready:
                    self.computing_opens.setdefault((index, node), []).append(gate)
                for other in message.waits_for:
                    self.opens[first + other].append(gate)
            gates[key].messages.append(first + place)
            self.source.append(message.source)
            self.destination.append(message.destination)
            self.weight.append(weights[message.source, message.destination, message.step])
            self.bytes.append(size)
            self.chunks.append(chunks)
            self.gate.append(gates[key])
            connection = message.source, message.destination
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


# -------------------------------------------------------------------------------------- simulation


class _Simulation:
    def __init__(self, plan: _Plan, nodes: Sequence[Node], costs: Costs) -> None:
        self.plan, self.nodes, self.costs = plan, nodes, costs
        self.now = 0.0
        self._number = itertools.count()
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.sent = [0] * len(plan.source)
        """Chunks of each message that have left."""
        self.prepared = [0] * len(plan.source)
        """Chunks of each message that may leave: `message_s` after their gate has opened."""
        self.flowing: dict[int, float] = {}
        """Message that is on its way -> bytes left of its chunk."""
        self.left = [list(counts) for counts in plan.part]
        self.begun = [0.0] * len(nodes)
        shape = (len(plan.part), len(nodes))
        self.computed, self.exchanged = np.zeros(shape), np.zeros(shape)
        self.links = _Links(nodes, costs.bytes_per_s)

    def run(self) -> Timeline:
        for node in range(len(self.nodes)):
            self._begin_round(0, node)
        while self.timers or self.flowing:
            self._advance()
        buckets = len(self.nodes[0].earlier_s)
        return Timeline(
            last_stages(list(self.computed), buckets), last_stages(list(self.exchanged), buckets)
        )

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.timers, (self.now + seconds, next(self._number), action))

    def _begin_round(self, index: int, node: int) -> None:
        """Or its next bucket, which may be ready before the one ahead of it has been exchanged."""
        if index >= len(self.left):
            return
        of = self.nodes[node]
        bucket = index % len(of.earlier_s)
        if bucket == 0:
            self.begun[node] = self.now
        ready = self.begun[node] + of.compute_s - of.earlier_s[bucket]
        self._after(max(0.0, ready - self.now), lambda: self._compute_ends(index, node))

    def _compute_ends(self, index: int, node: int) -> None:
        self.computed[index, node] = self.now
        for gate in self.plan.computing_opens.get((index, node), ()):
            self._arrive(gate, range(len(gate.arrived)))
        if not self.left[index][node]:
            self._end_round(index, node)

    def _end_round(self, index: int, node: int) -> None:
        self.exchanged[index, node] = self.now
        self._begin_round(index + 1, node)

    def _arrive(self, gate: _Gate, chunks: range) -> None:
        if not gate.arrive(chunks):
            return
        handled, message_s = 0, self.costs.message_s
        for message in gate.messages:
            handled += self.plan.weight[message][0]
            if message_s:
                self._after(message_s * handled, partial(self._prepared, message, gate.open))
            else:
                self._prepared(message, gate.open)

    def _prepared(self, message: int, chunks: int) -> None:
        self.prepared[message] = chunks
        self._send(message)

    def _send(self, message: int) -> None:
        """Send the next chunk, if it is prepared, and the connection free."""
        chunks = self.plan.chunks[message]
        is_prepared = self.sent[message] < min(chunks, self.prepared[message])
        if (
            is_prepared
            and message not in self.flowing
            and self._has_left(self.plan.before[message])
        ):
            self.flowing[message] = self.plan.bytes[message] / chunks

    def _has_left(self, message: int | None) -> bool:
        return message is None or self.sent[message] == self.plan.chunks[message]

    def _left(self, message: int) -> None:
        """A chunk has left its node."""
        plan = self.plan
        chunk = self.sent[message]
        self.sent[message] += 1
        del self.flowing[message]
        delay = self.nodes[plan.source[message]].delay_s
        delay += self.costs.byte_s * plan.bytes[message] / plan.chunks[message]
        if delay:
            self._after(delay, partial(self._arrived, message, chunk))
        else:
            self._arrived(message, chunk)
        self._send(message)
        if self._has_left(message):
            self._has_part(message, plan.source[message])
            if (after := plan.after[message]) is not None:
                self._send(after)

    def _arrived(self, message: int, chunk: int) -> None:
        chunks = self.plan.chunks[message]
        is_last = chunk + 1 == chunks
        for gate in self.plan.opens[message]:
            if len(gate.arrived) == chunks:
                self._arrive(gate, range(chunk, chunk + 1))
            elif is_last:
                self._arrive(gate, range(len(gate.arrived)))
        if is_last:
            self._has_part(message, self.plan.destination[message])

    def _has_part(self, message: int, node: int) -> None:
        index = self.plan.round_of[message]
        self.left[index][node] -= 1
        if not self.left[index][node]:
            self._end_round(index, node)

    def _advance(self) -> None:
        """To the next event: a chunk has left, a bucket is empty, or a timer ends."""
        messages = list(self.flowing)
        remaining = np.array([self.flowing[message] for message in messages])
        plan = self.plan
        source = np.array([plan.source[message] for message in messages], dtype=np.int64)
        destination = np.array([plan.destination[message] for message in messages], dtype=np.int64)
        weights = np.array([plan.weight[message] for message in messages], dtype=float)
        rates = self.links.share(source, destination, weights.reshape(-1, 3).T)
        with np.errstate(invalid="ignore"):
            needed = np.where(np.isinf(rates), 0.0, remaining / rates)
        seconds = min(
            float(needed.min(initial=math.inf)),
            self.links.until_empty(),
            self.timers[0][0] - self.now if self.timers else math.inf,
        )
        seconds = max(seconds, 0.0)
        self.now += seconds
        self.links.pass_time(seconds)
        slack = seconds * (1 + RELATIVE) + self.now * RELATIVE
        with np.errstate(invalid="ignore"):
            after = np.where(needed <= slack, 0.0, remaining - rates * seconds)
        for message, rest in zip(messages, after, strict=True):
            self.flowing[message] = float(rest)
        for message, rest in zip(messages, after, strict=True):
            if rest == 0.0:
                self._left(message)
        while self.timers and self.timers[0][0] <= self.now * (1 + RELATIVE):
            heapq.heappop(self.timers)[2]()


class _Links:
    """Max-min fair shares of links with token buckets, and of what the host copies."""

    def __init__(self, nodes: Sequence[Node], host: float) -> None:
        self.rate = np.array([[node.up for node in nodes], [node.down for node in nodes]]).ravel()
        self.burst = np.tile(np.array([node.burst_bytes for node in nodes], dtype=float), 2)
        self.burst[np.isinf(self.rate)] = 0.0
        self.tokens = self.burst.copy()
        self.host = host
        self.used = np.zeros_like(self.rate)
        self.ack_share = np.array([node.ack_share for node in nodes])

    def share(self, source: Places, destination: Places, weights: Floats) -> Floats:
        """Bytes per second of each message that is on its way."""
        resources = len(self.rate) + 1
        capacity = np.append(np.where(self.tokens > 0, math.inf, self.rate), self.host)
        half = len(self.rate) // 2
        of = np.stack(
            [
                *(source, destination + half, np.full_like(source, resources - 1)),
                *(destination, source + half),  # where acknowledgements go
            ]
        )
        acks = self.ack_share[destination]
        weights = np.vstack([weights, acks * weights[1], acks * weights[0]])
        rates = np.full(len(source), math.inf)
        undecided = np.ones(len(source), dtype=bool)
        while undecided.any():
            data, count = (
                np.bincount(
                    of[:rows, undecided].ravel(), weights[:rows, undecided].ravel(), resources
                )
                for rows in (DATA_ROWS, len(of))
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                fair = np.where(data > 0, capacity / count, math.inf)
            least = fair.min()
            if math.isinf(least):
                break
            tight = fair <= least * (1 + RELATIVE)
            decided = undecided & tight[of[:DATA_ROWS]].any(axis=0)
            rates[decided] = least
            np.subtract.at(capacity, of[:, decided].ravel(), least * weights[:, decided].ravel())
            capacity = np.maximum(capacity, 0.0)
            undecided &= ~decided
        shown = np.where(np.isinf(rates), LINE_RATE, rates)
        self.used = np.concatenate(
            [
                np.bincount(np.append(source, destination), np.tile(shown, 2) * sent, half)
                for sent, (source, destination) in (
                    (np.append(weights[0], weights[3]), (source, destination)),
                    (np.append(weights[1], weights[4]), (destination, source)),
                )
            ]
        )
        return shown

    def until_empty(self) -> float:
        draining = (self.tokens > 0) & (self.used > self.rate)
        if not draining.any():
            return math.inf
        return float((self.tokens[draining] / (self.used - self.rate)[draining]).min())

    def pass_time(self, seconds: float) -> None:
        with np.errstate(invalid="ignore"):
            tokens = self.tokens + (self.rate - self.used) * seconds
        tokens = np.where(self.burst > 0, np.clip(tokens, 0.0, self.burst), 0.0)
        self.tokens = np.where(tokens < self.burst * RELATIVE, 0.0, tokens)
