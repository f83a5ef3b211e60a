"""The critical path of a round, and the places of ranks: from the message schedule. Pure.

The critical path is that of links of one rate in both directions, where nothing else takes time.
Messages that leave a rank at the same time share its link; a rank receives in the order of steps.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby
from operator import attrgetter

from analysis.theory.predicted_bytes import ByRank
from cluster.spec.exchange.strategies import facts_of
from cluster.spec.schedules.messages import Amount, Message, Messages, Setting, each_message


def path_bytes(messages: Messages) -> Amount:
    """Bytes that pass one link after the other before the round has ended."""
    if any(flow.parts > 1 for flow in messages):
        return busiest_bytes(messages)
    if _never_waits(messages):
        return max((flow.pair_bytes for flow in messages), default=0)
    return _last_arrival(each_message(messages))


def busiest_bytes(messages: Messages) -> Amount:
    """Sent or received in a round, by the rank with most."""
    if not messages:
        return 0
    nodes = 1 + max(max(*flow.sources, *flow.destinations) for flow in messages)
    found = ByRank.of(messages, nodes)
    return Fraction(max(*found.sent, *found.received), found.parts)


def _never_waits(messages: Messages) -> bool:
    """Whether each rank sends and receives one message in every step, up to its last."""
    ranks = [rank for flow in messages for rank in flow.sources]
    return len(set(ranks)) == len(ranks) and all(
        flow.step == 0 and sorted(flow.sources) == sorted(flow.destinations) for flow in messages
    )


def _last_arrival(each: Sequence[Message]) -> Amount:
    leaving: dict[tuple[int, tuple[int, ...]], Amount] = {}
    arriving: dict[tuple[int, int], Amount] = {}
    for message in each:
        together, now = (message.source, message.waits_for), (message.destination, message.step)
        leaving[together] = leaving.get(together, 0) + message.bytes
        arriving[now] = arriving.get(now, 0) + message.bytes
    arrivals: list[Amount] = []
    received: dict[int, Amount] = {}
    for step, group in groupby(each, attrgetter("step")):
        messages = list(group)
        for message in messages:
            begin = max((arrivals[place] for place in message.waits_for), default=0)
            sent = begin + leaving[message.source, message.waits_for]
            earlier = received.get(message.destination, 0)
            arrivals.append(max(sent, earlier + arriving[message.destination, step]))
        for message, arrival in zip(messages, arrivals[-len(messages) :], strict=True):
            received[message.destination] = max(arrival, received.get(message.destination, arrival))
    return max(arrivals)


# ------------------------------------------------------------------------------------------ places


def centres(messages: Messages) -> set[int]:
    """Ranks that send nothing before they have received everything: the others wait for them."""
    sent, received = _steps(messages)
    return {rank for rank in sent.keys() & received if received[rank][1] < sent[rank][0]}


def leaves(messages: Messages) -> set[int]:
    """Ranks that receive nothing before they have sent everything: they wait for a centre."""
    sent, received = _steps(messages)
    return {rank for rank in sent.keys() & received if sent[rank][1] < received[rank][0]}


Steps = dict[int, tuple[int, int]]
"""Rank -> the first and the last step."""


def _steps(messages: Messages) -> tuple[Steps, Steps]:
    sent: Steps = {}
    received: Steps = {}
    for flow in messages:
        first, last = flow.step, flow.step + flow.count - 1
        for found, ranks in ((sent, flow.sources), (received, flow.destinations)):
            for rank in set(ranks):
                low, high = found.get(rank, (first, last))
                found[rank] = min(low, first), max(high, last)
    return sent, received


def place_text(strategy: str, ranks: Sequence[int], workers: int) -> str:
    """Where some ranks stand: `the root`, `a leaf`; empty where all ranks are equal."""
    facts = facts_of(strategy)
    if not facts.centre:
        return ""
    messages = facts.messages(0, Setting(workers=workers, model_bytes=1))
    if set(ranks) == centres(messages):
        return f"the {facts.centre}"
    if facts.leaf and set(ranks) <= leaves(messages):
        return f"a {facts.leaf}" if len(ranks) == 1 else facts.leaves
    return ""
