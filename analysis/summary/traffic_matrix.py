"""Who sent how much to whom in training, measured. Pure.

At every border a node says what each of its TCP connections has carried (workloads/counters/connections.py), by the addresses
of both ends. The connection HERE -> THERE of one node is THERE -> HERE of another: so the two ends find each other, and
each pair of nodes is counted twice, by who sends and by who receives. Counted is payload, a library's framing included
and packet headers not, each byte once however often TCP sent it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.summary.counters import spans

Events = Sequence[dict[str, Any]]
Connection = tuple[str, str]
"""HERE, THERE"""
Pair = tuple[int, int | None]
"""Ranks of who sends and who receives; None is none of the nodes, as a Spark driver."""


@dataclass(frozen=True)
class Carried:
    """By one node's connections in some spans of time."""

    sent: Counter[Connection] = field(default_factory=Counter)
    received: Counter[Connection] = field(default_factory=Counter)
    closed: int = 0
    """Connections that did not live to the end of a span: what they carried in it is unknown."""


@dataclass(frozen=True)
class Measured:
    sent: Counter[Pair]
    """As its sender counted."""
    received: Counter[Pair]
    """As its receiver did."""
    talk: dict[Pair, float]
    """How much of it a launcher's workers said to each other beside training."""
    closed: int


def measure(
    events: Sequence[Events], epochs: int, talk: Sequence[float | None] | None = None
) -> Measured | None:
    """Of the first so many epochs of a run; None where a node did not, or could not, count its connections.

    `talk` is how many bytes of it each node said beside training (analysis/summary/control_traffic.py): they went to whom its talk
    goes while nothing is exchanged.
    """
    borders = [[e for e in of_one if e["event"] in ("phase", "end", "rest")] for of_one in events]
    if not epochs or any(e.get("connections") is None for of_one in borders for e in of_one):
        return None
    train = [carried(spans(of_one, "train")[:epochs]) for of_one in borders]
    rest = [carried(_rests(of_one)) for of_one in borders]
    sent, received = _by_pair(events, train)
    at_rest, _ = _by_pair(events, rest)
    whole: Counter[int] = Counter()
    for (sender, _), count in at_rest.items():
        whole[sender] += count
    said: dict[Pair, float] = {}
    for pair, count in at_rest.items():
        of_node = talk[pair[0]] if talk else None
        if of_node and whole[pair[0]]:
            said[pair] = of_node * count / whole[pair[0]]
    return Measured(sent, received, said, sum(one.closed for one in train))


def table(found: Measured, predicted: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    """One entry for each pair between which anything went, or should have gone."""
    entries = [
        {
            "sender": sender,
            "receiver": receiver,
            "sent": found.sent[sender, receiver],
            "received": found.received[sender, receiver],
            "talk": round(found.talk.get((sender, receiver), 0.0)),
            "predicted": round(predicted[sender][receiver]),
        }
        for sender, receiver in itertools.permutations(range(len(predicted)), 2)
    ]
    return [one for one in entries if one["sent"] or one["received"] or one["predicted"]]


def carried(spans: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> Carried:
    """Between the two borders of each span. One that was opened in between has carried all it shows at its end."""
    found, closed = Carried(), 0
    for start, end in spans:
        before = {(here, there): counts for here, there, *counts in start["connections"]}
        after = {(here, there): counts for here, there, *counts in end["connections"]}
        closed += len(before.keys() - after.keys())
        for connection, (sent, received) in after.items():
            sent_before, received_before = before.get(connection, (0, 0))
            found.sent[connection] += sent - sent_before
            found.received[connection] += received - received_before
    return Carried(found.sent, found.received, closed)


def _rests(borders: Events) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    rests = [e for e in borders if e["event"] == "rest"]
    return [(rests[0], rests[1])] if len(rests) == 2 else []


def _by_pair(
    events: Sequence[Events], by_node: Sequence[Carried]
) -> tuple[Counter[Pair], Counter[Pair]]:
    owners = {
        _place(events[rank], connection): rank
        for rank, one in enumerate(by_node)
        for connection in one.sent
    }
    sent: Counter[Pair] = Counter()
    received: Counter[Pair] = Counter()
    for rank, one in enumerate(by_node):
        for (here, there), count in one.sent.items():
            other = owners.get(_place(events[rank], (there, here)))
            if other == rank:
                continue  # what a node says to itself
            sent[rank, other] += count
            if other is not None:
                received[other, rank] += one.received[here, there]
    return sent, received


def _place(events: Events, connection: Connection) -> tuple[str, Connection]:
    """Loopback is another host on every host."""
    network = next((e.get("network") for e in events if e["event"] == "hello"), None)
    inside = connection[0].startswith(("127.", "::1"))
    return (str(network) if inside else "", connection)
