"""An event simulator: when the messages of a run's rounds leave and arrive on given links. Pure.

A node computes, then takes part in the round's messages as its message schedule says, and computes
again when all of its messages of the round have arrived or left. Messages share links fairly
(max-min): each is limited by what its sender's link has to give, what its receiver's link takes,
and what the host copies for all nodes together. A message that waits for others (Message.waits_for)
starts `message_s` after the last of them has arrived; one with parts does so part by part. A node
handles messages that start at the same time one after the other.

Several rounds are simulated as one: a node that is late in one round is late for its partners of
the next, while others go on.

A link is throttled by a token bucket: after a pause up to `burst_bytes` pass at once. Where several
nodes send to one, a chunk of all of them is complete when the last one's has come (UNEVEN).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from analysis.predict.simulation import permutations
from analysis.predict.simulation.fair_links import RELATIVE, Links
from analysis.predict.simulation.message_plan import (
    Gate,
    Plan,
    between_kinds,
    have_clashes,
    node_kinds,
)
from analysis.predict.simulation.nodes import (
    BUFFERED_BYTES,
    NO_PATHS,
    Background,
    Costs,
    Node,
    Paths,
    Timeline,
    last_stages,
)
from cluster.spec.schedules.messages import Messages, step_count

MANY = 5_000
"""Messages, beyond which rounds without shared links are simulated as arrays."""
FEW = 10
"""The same where one node of each kind is simulated."""
MOST_APART = 32
"""Nodes, up to which each is simulated where words between nodes take time: of two nodes of a kind
one cannot wait for the other's."""
UNEVEN = 0.6
"""Of several senders' chunks, the last arrives later than with even shares of the link, by this
part of the time that a chunk of each takes: TCP shares a link evenly on average only. Measured:
0.1 to 0.9 in 10 stars of 4 to 8 nodes (2026-11-18)."""


def simulate(
    schedule: Callable[[int], Messages],
    nodes: Sequence[Node],
    rounds: int,
    costs: Costs,
    paths: Paths = NO_PATHS,
    background: Sequence[Background] = (),
) -> Timeline:
    """What `rounds` rounds take; schedule(t) has the messages of round t.

    Where a round has several buckets (Node.earlier_s), schedule(t) are the messages of the t-th
    bucket of all rounds.

    `paths` are between sites: all messages between two of them share one. `background` has its
    share of links and paths all the time.

    Nodes that are alike, and whose partners are, do the same at the same time: one of each kind is
    simulated, with the number of messages that share each link. Messages from one node to several
    of a kind start when the last of them is handled.
    """
    flows = [schedule(index) for index in range(rounds * len(nodes[0].earlier_s))]
    steps = sum(step_count(messages) for messages in flows)
    several = len(set(nodes)) > 1
    alone = not paths and not background and not any(node.trace for node in nodes)
    """Nothing is shared, and nothing changes: there is a quick form."""
    if (
        alone
        and several
        and steps * len(nodes) > MANY
        and all(map(permutations.is_permutation, flows))
    ):
        return permutations.simulate(flows, nodes, costs)
    kinds = node_kinds(flows, nodes)
    is_far = any(node.delay_s for node in nodes) or any(path.delay_s for path in paths.values())
    apart = is_far and len(nodes) <= MOST_APART
    if background or apart or have_clashes(flows, kinds):
        kinds = list(range(len(nodes)))
    first = [nodes[kinds.index(kind)] for kind in range(max(kinds) + 1)]
    members = Counter(kinds)
    between = [between_kinds(messages, kinds, members) for messages in flows]
    if alone and (steps > FEW or is_far) and math.isinf(costs.bytes_per_s):
        alike = [messages for messages, _ in between]
        if all(map(permutations.is_permutation, flows)):
            found = permutations.simulate(alike, first, costs)
            return Timeline(found.computed[:, kinds], found.exchanged[:, kinds])
    plan = Plan.of(between, len(first), partial(_delay_s, first, paths))
    found = _Simulation(plan, first, costs, paths, background).run()
    return Timeline(found.computed[:, kinds], found.exchanged[:, kinds])


def _delay_s(nodes: Sequence[Node], paths: Paths, source: int, destination: int) -> float:
    """From one node to another: by the links of both, and by the path between their sites."""
    here, there = nodes[source], nodes[destination]
    path = paths.get((here.site, there.site))
    return here.delay_s + there.delay_s + (path.delay_s if path else 0.0)


class _Simulation:
    def __init__(
        self,
        plan: Plan,
        nodes: Sequence[Node],
        costs: Costs,
        paths: Paths = NO_PATHS,
        background: Sequence[Background] = (),
    ) -> None:
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
        self.links = Links(nodes, costs.bytes_per_s, paths, background)
        self.paths = paths
        self._follow_traces()

    def run(self) -> Timeline:
        for node in range(len(self.nodes)):
            self._begin_round(0, node)
        while self.timers or self.flowing:
            self._advance()
        buckets = len(self.nodes[0].earlier_s)
        return Timeline(
            last_stages(list(self.computed), buckets), last_stages(list(self.exchanged), buckets)
        )

    def _follow_traces(self) -> None:
        for number, node in enumerate(self.nodes):
            for at_s, up, down in node.trace:
                self._after(at_s, partial(self.links.change, number, up, down))
        for pair, path in self.paths.items():
            for at_s, rate in path.trace:
                self._after(at_s, partial(self.links.change_path, pair, rate))

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
            self._tell(gate, node, range(len(gate.arrived)))
        if not self.left[index][node]:
            self._end_round(index, node)

    def _end_round(self, index: int, node: int) -> None:
        self.exchanged[index, node] = self.now
        self._begin_round(index + 1, node)

    def _tell(self, gate: Gate, node: int, chunks: range) -> None:
        """What a node has computed or received opens a gate; elsewhere when its word has come."""
        delay = _delay_s(self.nodes, self.paths, node, gate.source) if node != gate.source else 0.0
        if delay:
            self._after(delay, partial(self._arrive, gate, chunks))
        else:
            self._arrive(gate, chunks)

    def _arrive(self, gate: Gate, chunks: range) -> None:
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
        chunks, sent = self.plan.chunks[message], self.sent[message]
        is_prepared = sent < min(len(chunks), self.prepared[message])
        if (
            is_prepared
            and message not in self.flowing
            and self._has_left(self.plan.before[message])
        ):
            self.flowing[message] = chunks[sent]
            if sent + 1 == len(chunks) and chunks[sent] <= BUFFERED_BYTES:
                self._has_part(message, self.plan.source[message])

    def _has_left(self, message: int | None) -> bool:
        return message is None or self.sent[message] == len(self.plan.chunks[message])

    def _left(self, message: int) -> None:
        """A chunk has left its node."""
        plan = self.plan
        chunk = self.sent[message]
        self.sent[message] += 1
        del self.flowing[message]
        ends = plan.source[message], plan.destination[message]
        delay = _delay_s(self.nodes, self.paths, *ends)
        delay += self.costs.copy_s(plan.chunks[message][chunk])
        if chunk + 1 < len(plan.chunks[message]):
            delay += self._lag_s(message, chunk)
        if delay:
            self._after(delay, partial(self._arrived, message, chunk))
        else:
            self._arrived(message, chunk)
        self._send(message)
        if self._has_left(message):
            if plan.chunks[message][chunk] > BUFFERED_BYTES:
                self._has_part(message, plan.source[message])
            if (after := plan.after[message]) is not None:
                self._send(after)

    def _lag_s(self, message: int, chunk: int) -> float:
        """By which the last of several senders' chunks comes later than with even shares."""
        others = self.plan.senders[message] - 1
        rate = self.nodes[self.plan.destination[message]].down
        return UNEVEN * others * self.plan.chunks[message][chunk] / rate

    def _arrived(self, message: int, chunk: int) -> None:
        chunks = len(self.plan.chunks[message])
        is_last = chunk + 1 == chunks
        node = self.plan.destination[message]
        for gate in self.plan.opens[message]:
            if len(gate.arrived) == chunks:
                self._tell(gate, node, range(chunk, chunk + 1))
            elif is_last:
                self._tell(gate, node, range(len(gate.arrived)))
        if is_last:
            self._has_part(message, node)

    def _has_part(self, message: int, node: int) -> None:
        index = self.plan.round_of[message]
        self.left[index][node] -= 1
        if not self.left[index][node]:
            self._end_round(index, node)

    def _advance(self) -> None:
        """To the next event: a chunk has left, a bucket is empty, or a timer ends."""
        ends, flowing = self.plan.ends, self.flowing
        rates = self.links.share(tuple([ends[message] for message in flowing]))
        needed = [left / rate for left, rate in zip(flowing.values(), rates, strict=True)]
        seconds = min(
            min(needed, default=math.inf),
            self.links.until_empty(),
            self.timers[0][0] - self.now if self.timers else math.inf,
        )
        seconds = max(seconds, 0.0)
        self.now += seconds
        self.links.pass_time(seconds)
        slack = seconds * (1 + RELATIVE) + self.now * RELATIVE
        gone = []
        for message, rate, wanted in zip(list(flowing), rates, needed, strict=True):
            flowing[message] -= rate * seconds
            if wanted <= slack:
                gone.append(message)
        for message in gone:
            self._left(message)
        while self.timers and self.timers[0][0] <= self.now * (1 + RELATIVE):
            heapq.heappop(self.timers)[2]()
