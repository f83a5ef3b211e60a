"""Bytes of the strategies without a barrier: every frame that two nodes send each other, once.

Who exchanges with whom, and how often, depends on timing. Each worker records it
(`exchanges`, cluster/spec/documents/events.py), and what every node sent to every other follows
from that record and the sizes here, which workloads/unpaced uses too. Standard library only.

A frame is a header, and for some kinds the model. A header has four numbers of 32 bits.

    async-pairwise   CLAIM -> the node that counts steps, which answers GRANT, before every step
                     ASK -> a partner, which answers BUSY; or
                     ASK -> a partner, which answers YES + model; MODEL + model -> it; DONE <-
    async-server,    BEGIN -> the server, which answers GRANT, once an epoch
    quorum           PUSH + gradients or change -> the server, which answers GRANT + model
                     PULL -> the server, which answers GRANT + model: where BEGIN got no steps
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import IntEnum
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from cluster.spec.documents.codec import Count, DocumentError
from cluster.spec.schedules.messages import Flow, Messages, Setting
from cluster.spec.schedules.recorded import RecordedSchedule

if TYPE_CHECKING:
    from cluster.spec.documents.events import Exchanges

HEADER_BYTES = 16


class Kind(IntEnum):
    """Of a frame."""

    CLAIM = 1
    GRANT = 2
    ASK = 3
    BUSY = 4
    YES = 5
    MODEL = 6
    DONE = 7
    BEGIN = 8
    PUSH = 9
    PULL = 10


class Partner(NamedTuple):
    """How often a worker exchanged with another node in an epoch: an array of four in JSON."""

    rank: Count
    """The other node."""
    exchanges: Count
    """Exchanges that this worker began."""
    refused: Count
    """Times that the other was busy when this worker asked it."""
    controls: Count
    """Headers that it sent to the other and that were answered by a header: claims, BEGIN."""


Pair = tuple[int, int]


def sent_by_pair(
    by_worker: Mapping[int, Iterable[Partner]], is_pairwise: bool, exchanged_bytes: int
) -> Counter[Pair]:
    """Payload from node to node, of workers' records by rank."""
    found: Counter[Pair] = Counter()
    for rank, partners in by_worker.items():
        for partner in partners:
            one_way = HEADER_BYTES * (partner.refused + partner.controls)
            whole = partner.exchanges * (HEADER_BYTES * (2 if is_pairwise else 1) + exchanged_bytes)
            found[rank, partner.rank] += one_way + whole
            found[partner.rank, rank] += one_way + whole
    return found


def schedule_of(
    records: Mapping[int, Iterable[Exchanges]], setting: Setting, strategy: str, rounds: int
) -> RecordedSchedule:
    """A round that has the mean of all messages, so that `rounds` of them are all that was sent."""
    nodes = setting.workers + (strategy != PAIRWISE)
    partners: dict[int, list[Partner]] = {
        rank: [partner for record in of_worker for partner in record.partners]
        for rank, of_worker in records.items()
    }
    for partner in (partner for known in partners.values() for partner in known):
        if partner.rank >= nodes:
            raise DocumentError(f"has a rank beyond {nodes - 1}", "exchanges.partners")
    counted = sent_by_pair(partners, strategy == PAIRWISE, setting.exchanged_bytes)
    flows = tuple(
        Flow((source,), (destination,), Fraction(sent_bytes, rounds))
        for (source, destination), sent_bytes in sorted(counted.items())
        if source != destination
    )
    return RecordedSchedule((flows,), (0,))


PAIRWISE = "async-pairwise"


# ------------------------------------------------------------------------------------ expectations


def header_setting(strategy: str, setting: Setting) -> Setting:
    """In which an expected exchange is its frames' headers only, without claims and BEGIN."""
    size = HEADER_BYTES * (2 if strategy == PAIRWISE else 1)
    return replace(setting, model_bytes=size, buffer_bytes=0, bucket_bytes=())


def expected_pairs(_index: int, setting: Setting) -> Messages:
    """Of equal nodes that are due at the same time: pairs, each pair as likely as any other.

    An odd worker finds nobody free. Nodes that are due at different times exchange more often: each
    once, and the one that begins may be asked once more.
    """
    workers = setting.workers
    pairs = [(a, b) for a in range(workers) for b in range(workers) if a != b]
    if not pairs:
        return ()
    sources, destinations = (tuple(ends) for ends in zip(*pairs, strict=True))
    share = Fraction(2 * (workers // 2), workers * (workers - 1))
    return (Flow(sources, destinations, share * setting.exchanged_bytes),)


def expected_at_server(_index: int, setting: Setting) -> Messages:
    """Every worker pushes and pulls once."""
    workers = tuple(range(setting.workers))
    server = (setting.workers,) * setting.workers
    return (
        Flow(workers, server, setting.exchanged_bytes, step=0),
        Flow(server, workers, setting.exchanged_bytes, step=1),
    )
