"""The measured traffic matrix: bytes from node i to node j in training. Pure.

At every phase boundary a node records what each of its TCP connections has carried
(workloads/counters/connections.py), with the addresses of both ends. The connection LOCAL -> REMOTE
of one node is REMOTE -> LOCAL of another: so the two ends find each other, and each pair of nodes
is counted twice, by the sender and by the receiver. Counted is payload, a library's framing
included, packet headers not, each byte once however often TCP sent it.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from analysis.summary.node_log import NodeLog, Span
from cluster.spec.documents.events import Boundary
from cluster.spec.documents.summary import PairTraffic

Connection = tuple[str, str]
"""Local and remote address."""
Pair = tuple[int, int | None]
"""Ranks of sender and receiver; None is none of the nodes, such as a Spark driver."""


@dataclass(frozen=True)
class Carried:
    """What one node's connections carried in some spans of time."""

    sent: Counter[Connection] = field(default_factory=Counter)
    received: Counter[Connection] = field(default_factory=Counter)
    closed: int = 0
    """Connections that were closed within a span: what they carried in it is unknown."""


@dataclass(frozen=True)
class Measured:
    sent: Counter[Pair]
    """As the sender counted."""
    received: Counter[Pair]
    """As the receiver counted."""
    control: dict[Pair, float]
    """How much of it was control traffic."""
    closed: int


def measure(
    logs: Sequence[NodeLog], epochs: int, control: Sequence[float | None] | None = None
) -> Measured | None:
    """Of the first epochs of a run; None where a node did not, or could not, count connections.

    `control` is each node's control traffic in bytes: it went to whom it goes while nothing is
    exchanged.
    """
    boundaries = [boundary for log in logs for boundary in log.all(Boundary)]
    if not epochs or any(boundary.connections is None for boundary in boundaries):
        return None
    train = [carried(log.spans("train")[:epochs]) for log in logs]
    sent, received = _by_pair(logs, train)
    idle, _ = _by_pair(logs, [carried(log.idle_spans) for log in logs])
    total: Counter[int] = Counter()
    for (sender, _), count in idle.items():
        total[sender] += count
    shares: dict[Pair, float] = {}
    for pair, count in idle.items():
        of_node = control[pair[0]] if control else None
        if of_node and total[pair[0]]:
            shares[pair] = of_node * count / total[pair[0]]
    return Measured(sent, received, shares, sum(node.closed for node in train))


def table(
    found: Measured, predicted: Sequence[Sequence[float]] | None, nodes: int
) -> list[PairTraffic]:
    """Every pair between which anything went, or should have gone where that is known."""
    pairs = [
        PairTraffic(
            sender=sender,
            receiver=receiver,
            sent_bytes=found.sent[sender, receiver],
            received_bytes=found.received[sender, receiver],
            control_bytes=round(found.control.get((sender, receiver), 0.0)),
            predicted_bytes=None if predicted is None else round(predicted[sender][receiver]),
        )
        for sender, receiver in itertools.permutations(range(nodes), 2)
    ]
    return [
        pair for pair in pairs if pair.sent_bytes or pair.received_bytes or pair.predicted_bytes
    ]


def carried(spans: Sequence[Span]) -> Carried:
    """Sums over spans. A connection opened within a span has carried all it shows at the end."""
    found, closed = Carried(), 0
    for start, end in spans:
        before, after = (
            {(row.local, row.remote): row for row in boundary.connections or ()}
            for boundary in (start, end)
        )
        closed += len(before.keys() - after.keys())
        for connection, last in after.items():
            first = before.get(connection)
            found.sent[connection] += last.sent_bytes - (first.sent_bytes if first else 0)
            found.received[connection] += last.received_bytes - (
                first.received_bytes if first else 0
            )
    return Carried(found.sent, found.received, closed)


def _by_pair(
    logs: Sequence[NodeLog], by_node: Sequence[Carried]
) -> tuple[Counter[Pair], Counter[Pair]]:
    owners = {
        _place(logs[rank], connection): rank
        for rank, node in enumerate(by_node)
        for connection in node.sent
    }
    sent: Counter[Pair] = Counter()
    received: Counter[Pair] = Counter()
    for rank, node in enumerate(by_node):
        for (local, remote), count in node.sent.items():
            other = owners.get(_place(logs[rank], (remote, local)))
            if other == rank:
                continue  # a node's connection to itself
            sent[rank, other] += count
            if other is not None:
                received[other, rank] += node.received[local, remote]
    return sent, received


def _place(log: NodeLog, connection: Connection) -> tuple[str, Connection]:
    """Loopback is another network on every host."""
    network = log.hello.network if log.hello else None
    inside = connection[0].startswith(("127.", "::1"))
    return (str(network) if inside else "", connection)
