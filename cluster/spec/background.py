"""Background traffic: bytes that others send over the nodes' links, as text and as values.

    1-3:10mbit              node 1 sends to node 3, 10 Mbit/s on the wire, headers included
    1-3:10mbit,3-1:2mbit    and node 3 to node 1

It is TCP, which takes its share of a full link and no more, sent by a program beside the workers
(cluster/links/background_sender.py) in whole segments, so that nodes can tell its packets from
those of the workers by what the kernel counts of its connections.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cluster.spec.quantities import RATES, parse_rate, write_scaled

FORM = "NODE-NODE:RATE, such as 1-3:10mbit"
PORT = 29410
"""On which a node takes background traffic; connections are told apart by it."""
HIGHEST_BIT = 2 * 10**8
"""Of one flow: the program sends every segment by itself."""
MOST_FLOWS = 64
SEGMENT_WIRE_BYTES = 1514
"""A full segment on the wire."""


@dataclass(frozen=True)
class Flow:
    """From one node to another."""

    source: int
    destination: int
    rate_bit: int
    """Bits a second on the wire at most."""

    @property
    def rate_mbit(self) -> float:
        return self.rate_bit / 10**6

    @property
    def ends(self) -> str:
        return f"{self.source}-{self.destination}"

    def __str__(self) -> str:
        return f"{self.ends}:{write_scaled(self.rate_bit, RATES)}"


def parse_background(text: str) -> tuple[Flow, ...]:
    """NODE-NODE:RATE[,...], in the order of nodes; ValueError for anything else."""
    flows: dict[tuple[int, int], Flow] = {}
    for part in text.split(","):
        ends, _, rate = (piece.strip() for piece in part.partition(":"))
        first, _, second = (end.strip() for end in ends.partition("-"))
        if not (rate and _is_rank(first) and _is_rank(second)):
            raise ValueError(f"{part.strip()!r} is not {FORM}")
        pair = int(first), int(second)
        if pair[0] == pair[1]:
            raise ValueError(f"{ends!r} is one node: name the one that sends, then another")
        if pair in flows:
            raise ValueError(f"{ends} is named twice")
        flows[pair] = Flow(*pair, parse_rate(rate, HIGHEST_BIT))
    if len(flows) > MOST_FLOWS:
        raise ValueError(f"at most {MOST_FLOWS} flows are sent, not {len(flows)}")
    return tuple(flows[pair] for pair in sorted(flows))


def write_background(flows: Iterable[Flow]) -> str:
    return ",".join(map(str, flows))


def _is_rank(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
