"""A node's link as text and as a value: RATE[/DELAY[/LOSS]], for example 100mbit/5ms/0.1%.

Pure and standard library only: an Experiment checks its own links with it. What makes a link real is in
cluster/links/tc.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

T = TypeVar("T")

RATE_UNITS = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
DELAY_UNITS = {"us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1)}
LOWEST_RATE, HIGHEST_RATE = 10**5, 10**10
LONGEST_DELAY_S = 10
FEWEST_CORES, MOST_CORES = 0.01, 1024
FORM = "RATE[/DELAY[/LOSS]], such as 20mbit or 100mbit/5ms/0.1%"
NONE = "none"
"""Stands for no value in a list of cases."""

_QUANTITY = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([a-zA-Z/%]*)")


class LinkError(ValueError):
    """A person's mistake in a link; one line."""


@dataclass(frozen=True)
class Link:
    """What a node is attached with, the same in both directions."""

    rate_bit: int
    """Bits a second on the wire, headers included."""
    delay_s: float = 0.0
    """Added in each direction: twice as much to the time there and back."""
    loss: float = 0.0
    """Share of the packets that is lost, in each direction."""

    @property
    def rate_mbit(self) -> float:
        return self.rate_bit / 10**6

    @property
    def needs_netem(self) -> bool:
        return self.delay_s > 0 or self.loss > 0

    def __str__(self) -> str:
        """As a person would type it; the same link is always the same text."""
        unit, size = next((u, s) for u, s in reversed(RATE_UNITS.items()) if self.rate_bit >= s)
        text = f"{_plain(Decimal(self.rate_bit) / size)}{unit}"
        if self.needs_netem:
            text += f"/{_plain(Decimal(str(self.delay_s)) * 1000)}ms"
        if self.loss > 0:
            text += f"/{_plain(Decimal(str(self.loss)) * 100)}%"
        return text


def parse_link(text: str) -> Link:
    rate, *others = text.split("/")
    if len(others) > 2:
        raise LinkError(f"{text!r} is no link: write {FORM}")
    delay = _delay_s(others[0]) if others else 0.0
    loss = _loss(others[1]) if len(others) > 1 else 0.0
    return Link(_rate_bit(rate), delay, loss)


def parse_links(text: str) -> dict[int, Link]:
    """RANK:LINK[,RANK:LINK]"""
    return _by_rank(text, "LINK, such as 2:20mbit", parse_link)


def parse_cores(text: str) -> dict[int, float]:
    """RANK:CORES[,RANK:CORES]"""
    return _by_rank(text, "CORES, such as 1:0.5", _cores)


def write_by_rank(values: Mapping[int, object]) -> str:
    texts = {r: f"{v:g}" if isinstance(v, float) else str(v) for r, v in values.items()}
    return ",".join(f"{rank}:{text}" for rank, text in texts.items())


def _by_rank(text: str, form: str, parse: Callable[[str], T]) -> dict[int, T]:
    """rank -> value, in the order of the ranks."""
    values: dict[int, T] = {}
    for part in text.split(","):
        rank, _, value = (piece.strip() for piece in part.partition(":"))
        if not (value and rank.isascii() and rank.isdigit() and len(rank) < 10):
            raise LinkError(f"{part.strip()!r} is not RANK:{form}")
        if int(rank) in values:
            raise LinkError(f"node {int(rank)} is named twice")
        values[int(rank)] = parse(value)
    return dict(sorted(values.items()))


def _cores(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}", text):
        raise LinkError(f"{text!r} is no number of CPU cores")
    if not FEWEST_CORES <= float(text) <= MOST_CORES:
        raise LinkError(f"cores must be between {FEWEST_CORES} and {MOST_CORES:,}, not {text}")
    return float(text)


def _rate_bit(text: str) -> int:
    number, unit = _quantity(text, "rate")
    if unit.lower() in ("bps", "kbps", "mbps", "gbps", "tbps"):
        meant = unit.lower().replace("bps", "bit")
        raise LinkError(
            f"rate {text!r}: in tc, {unit} is bytes a second; write {meant}, which is bits a second"
        )
    if unit not in RATE_UNITS:
        raise LinkError(f"rate {text!r} must end in {', '.join(RATE_UNITS)}, as in 20mbit")
    bits = number * RATE_UNITS[unit]
    if not LOWEST_RATE <= bits <= HIGHEST_RATE:
        raise LinkError(f"rate must be between 100kbit and 10gbit, not {text}")
    return int(bits)


def _delay_s(text: str) -> float:
    number, unit = _quantity(text, "delay")
    if unit not in DELAY_UNITS:
        raise LinkError(f"delay {text!r} must end in {', '.join(DELAY_UNITS)}, as in 5ms")
    seconds = number * DELAY_UNITS[unit]
    if not 0 <= seconds <= LONGEST_DELAY_S:
        raise LinkError(f"delay must be between 0 and {LONGEST_DELAY_S}s, not {text}")
    return float(seconds)


def _loss(text: str) -> float:
    number, unit = _quantity(text, "loss")
    if unit != "%":
        raise LinkError(f"loss {text!r} must end in %, as in 0.1%")
    if not 0 <= number < 100:
        raise LinkError(f"loss must be at least 0% and below 100%, not {text}")
    return float(number / 100)


def _quantity(text: str, name: str) -> tuple[Decimal, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None or len(match[1]) > 20:
        raise LinkError(f"{name} {text!r} is not understood: write {FORM}")
    return Decimal(match[1]), match[2]


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"
