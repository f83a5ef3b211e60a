"""Rounds in which every link carries one message after the other, for thousands of nodes. Pure.

On a ring, and in pairs, a node sends to one other node and receives from one: no link is shared,
and the times of all nodes follow from each other step by step. The same numbers as of the event
simulator (simulator.py), in one pass over arrays.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from analysis.predict.simulation.nodes import (
    BUFFERED_BYTES,
    Costs,
    Floats,
    Node,
    Timeline,
    chunk_sizes,
    last_stages,
)
from cluster.spec.schedules.messages import Flow, Messages

ENOUGH = 64
"""Steps of a ring of equal nodes, after which each takes as long as the one before."""


def is_permutation(messages: Messages) -> bool:
    """Whether each node sends to one node and receives from one, from the first step on."""
    sources = list(chain.from_iterable(flow.sources for flow in messages))
    destinations = list(chain.from_iterable(flow.destinations for flow in messages))
    return (
        len(set(sources)) == len(sources)
        and len(set(destinations)) == len(destinations)
        and all(flow.step == 0 for flow in messages)
    )


class _Meters:
    """Token buckets of all links of one direction, as the time at which each is used up."""

    def __init__(self, rates: Sequence[float], bursts: Sequence[float]) -> None:
        self.second_per_byte = 1 / np.array(rates, dtype=float)
        self.lead = np.array(bursts, dtype=float) * self.second_per_byte
        self.used_until = -self.lead

    def carry(self, places: list[int], start: Floats, size: float) -> Floats:
        """When messages that begin at `start` have passed."""
        begin = np.maximum(self.used_until[places], start - self.lead[places])
        self.used_until[places] = begin + size * self.second_per_byte[places]
        return np.maximum(start, self.used_until[places])


def simulate(rounds: Sequence[Messages], nodes: Sequence[Node], costs: Costs) -> Timeline:
    bursts = [node.burst_bytes for node in nodes]
    acked = [1 + node.ack_share for node in nodes]
    up = _Meters([node.up / more for node, more in zip(nodes, acked, strict=True)], bursts)
    down = _Meters([node.down / more for node, more in zip(nodes, acked, strict=True)], bursts)
    compute = np.array([node.compute_s for node in nodes])
    delay = np.array([node.delay_s for node in nodes])
    earlier = np.array([node.earlier_s for node in nodes]).T
    now = begun = np.zeros(len(nodes))
    computed, exchanged = [], []
    for stage, messages in enumerate(rounds):
        bucket = stage % len(earlier)
        begun = begun if bucket else now
        ready = np.maximum(now, begun + compute - earlier[bucket])
        now = ready.copy()
        for flow in messages:
            _exchange(flow, ready, now, (up, down), delay, costs)
        computed.append(ready)
        exchanged.append(now.copy())
    return Timeline(last_stages(computed, len(earlier)), last_stages(exchanged, len(earlier)))


def _exchange(
    flow: Flow,
    ready: Floats,
    end: Floats,
    links: tuple[_Meters, _Meters],
    delay: Floats,
    costs: Costs,
) -> None:
    """Every node of the flow sends `count` messages to its neighbour; `end` becomes later."""
    sources, destinations = list(flow.sources), list(flow.destinations)
    chunks = chunk_sizes(flow, flow.count)
    notice = delay[sources] + delay[destinations]
    start = np.maximum(ready[sources], ready[destinations] + notice)
    asks = not flow.cuts and notice.any()
    """For a message after the one before."""
    sent = begin = start.copy()
    have = np.tile(ready[:, None], (1, len(chunks)))
    """By node and chunk, when it can be passed on."""
    steps = flow.count if len(ready) > 1 else min(flow.count, ENOUGH)
    for _ in range(steps):
        before, arrived = sent, have.copy()
        for chunk, size in enumerate(chunks):
            may = np.maximum(have[sources, chunk], start)
            if asks:
                may = np.maximum(may, have[destinations, chunk] + notice)
            begin = np.maximum(may + costs.message_s, sent)
            passed = np.maximum(
                links[0].carry(sources, begin, size),
                links[1].carry(destinations, begin, size),
            )
            sent = passed
            arrived[destinations, chunk] = (
                passed + delay[sources] + delay[destinations] + costs.copy_s(size)
            )
        have = arrived
    if steps < flow.count:
        later = (flow.count - steps) * (sent - before)
        sent, begin, have = sent + later, begin + later, have + later
        for link in links:
            link.used_until = link.used_until + later
    gone = begin if chunks[-1] <= BUFFERED_BYTES else sent
    end[sources] = np.maximum(end[sources], gone)
    end[destinations] = np.maximum(end[destinations], have[destinations].max(axis=1))
