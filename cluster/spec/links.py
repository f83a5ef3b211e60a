"""A node's link as text and as a value: RATE[/DELAY[/LOSS]], for example 100mbit/5ms/0.1%.

UP/DOWN in place of RATE, 20mbit/100mbit/5ms: two rates, since a delay never ends in bit.

An Experiment checks its own links with it; cluster/links/tc.py makes them real.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from cluster.spec.quantities import (
    RATES,
    parse_core_count,
    parse_loss,
    parse_rate,
    parse_time,
    plain,
    write_scaled,
)

T = TypeVar("T")

HIGHEST_RATE = 10**10
"""Bits a second that this project can emulate."""
LONGEST_DELAY_S = 10
FORM = (
    "RATE[/DELAY[/LOSS]], such as 20mbit or 100mbit/5ms/0.1%, or UP/DOWN for RATE, such as"
    " 20mbit/100mbit"
)
NONE = "none"
"""Stands for no value in a list of cases."""


@dataclass(frozen=True)
class Link:
    """What a node is attached with; delay and loss are the same in both directions."""

    rate_bit: int
    """Bits a second on the wire from the node, headers included."""
    delay_s: float = 0.0
    """Added in each direction: twice as much to the time there and back."""
    loss: float = 0.0
    """Share of the packets that is lost, in each direction."""
    received_bit: int | None = None
    """Bits a second to the node, where that is another rate."""

    @property
    def down_bit(self) -> int:
        """Bits a second to the node."""
        return self.rate_bit if self.received_bit is None else self.received_bit

    @property
    def rate_mbit(self) -> float:
        """From the node."""
        return self.rate_bit / 10**6

    @property
    def down_mbit(self) -> float:
        """To the node."""
        return self.down_bit / 10**6

    @property
    def slowest_mbit(self) -> float:
        return min(self.rate_mbit, self.down_mbit)

    @property
    def needs_netem(self) -> bool:
        return self.delay_s > 0 or self.loss > 0

    def dilated(self, factor: float) -> "Link":
        """The link of the host that is this one in emulated time."""
        down = None if self.received_bit is None else round(self.received_bit / factor)
        return Link(round(self.rate_bit / factor), self.delay_s * factor, self.loss, down)

    @property
    def reversed(self) -> "Link":
        """As seen from the other end."""
        up = None if self.received_bit is None else self.rate_bit
        return Link(self.down_bit, self.delay_s, self.loss, up)

    def __str__(self) -> str:
        """As a person would type it; the same link is always the same text."""
        text = write_scaled(self.rate_bit, RATES)
        if self.received_bit is not None:
            text += f"/{write_scaled(self.received_bit, RATES)}"
        if self.needs_netem:
            text += f"/{plain(Decimal(str(self.delay_s)) * 1000)}ms"
        if self.loss > 0:
            text += f"/{plain(Decimal(str(self.loss)) * 100)}%"
        return text


def parse_link(text: str, highest: int = HIGHEST_RATE) -> Link:
    """ValueError, in one line, for anything else; a prediction may have faster links."""
    rate, *others = text.split("/")
    up = parse_rate(rate, highest)
    down = parse_rate(others.pop(0), highest) if others and others[0].endswith("bit") else up
    if len(others) > 2:
        raise ValueError(f"{text!r} is no link: write {FORM}")
    delay = parse_time(others[0], "delay", LONGEST_DELAY_S) if others else 0.0
    loss = parse_loss(others[1]) if len(others) > 1 else 0.0
    return Link(up, delay, loss, None if down == up else down)


def parse_links(text: str) -> dict[int, Link]:
    """RANK:LINK[,RANK:LINK]"""
    return _by_rank(text, "LINK, such as 2:20mbit", parse_link)


def parse_cores(text: str) -> dict[int, float]:
    """RANK:CORES[,RANK:CORES]"""
    return _by_rank(text, "CORES, such as 1:0.5", parse_core_count)


def write_by_rank(values: Mapping[int, object]) -> str:
    texts = {r: f"{v:g}" if isinstance(v, float) else str(v) for r, v in values.items()}
    return ",".join(f"{rank}:{text}" for rank, text in texts.items())


def _by_rank(text: str, form: str, parse: Callable[[str], T]) -> dict[int, T]:
    """rank -> value, in the order of the ranks."""
    values: dict[int, T] = {}
    for part in text.split(","):
        rank, _, value = (piece.strip() for piece in part.partition(":"))
        if not (value and rank.isascii() and rank.isdigit() and len(rank) < 10):
            raise ValueError(f"{part.strip()!r} is not RANK:{form}")
        if int(rank) in values:
            raise ValueError(f"node {int(rank)} is named twice")
        values[int(rank)] = parse(value)
    return dict(sorted(values.items()))
