"""Links over time: the rates of a link or path from moment to moment, as text, file and values.

    2:0s=100mbit/20s=10mbit/40s=100mbit     node 2's link: 100 Mbit/s, after 20 s 10 Mbit/s, ...
    a-b:0s=50mbit                           the path between two sites

Times are emulated seconds since training began. Before the first one a link has the rates that it
was given, after the last one it keeps the last. Delay and loss stay. A moment with two rates,
20s=10mbit>50mbit, has another one to the node (or from the second site).
"""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from cluster.spec.links import HIGHEST_RATE, Link
from cluster.spec.quantities import RATES, parse_duration, parse_rate, plain, write_scaled
from cluster.spec.sites import Pair, path_name

FORM = "NODE:FILE or SITE-SITE:FILE, such as 2:lte.csv (lines of seconds,mbit)"
LEAST_BIT = 10**5
MOST_CHANGES = 2_000
LEAST_GAP_S = 0.1
"""Between two changes: the host looks some twenty times a second."""
LONGEST_S = 10**6
OPPORTUNITY_BITS = 1500 * 8
"""Of a line of a Mahimahi trace: a packet may leave in this millisecond."""
BIN_MS = 1000
Place = int | Pair
"""A node's link by its rank, or the path between two sites."""


@dataclass(frozen=True)
class Change:
    """From this moment on."""

    at_s: float
    up_bit: int
    down_bit: int

    def link(self, link: Link) -> Link:
        """The link with these rates."""
        down = None if self.down_bit == self.up_bit else self.down_bit
        return dataclasses.replace(link, rate_bit=self.up_bit, received_bit=down)

    def __str__(self) -> str:
        rates = dict.fromkeys((self.up_bit, self.down_bit))
        return f"{plain(Decimal(str(self.at_s)))}s=" + ">".join(
            write_scaled(rate, RATES) for rate in rates
        )


Trace = tuple[Change, ...]


def parse_traces(text: str) -> dict[Place, Trace]:
    """PLACE:TRACE[,PLACE:TRACE]; ValueError for anything else."""
    traces: dict[Place, Trace] = {}
    for part in text.split(","):
        name, _, steps = (piece.strip() for piece in part.partition(":"))
        place = parse_place(name)
        if not steps:
            raise ValueError(f"{part.strip()!r} is not {FORM}")
        if place in traces:
            raise ValueError(f"{name} is named twice")
        traces[place] = checked([_parse_change(step) for step in steps.split("/")])
    return dict(sorted(traces.items(), key=lambda item: (isinstance(item[0], tuple), str(item[0]))))


def write_traces(traces: Mapping[Place, Trace]) -> str:
    return ",".join(f"{place_name(p)}:{'/'.join(map(str, t))}" for p, t in traces.items())


def parse_place(name: str) -> Place:
    if name.isascii() and name.isdigit() and len(name) < 10:
        return int(name)
    ends = [end.strip() for end in name.split("-")]
    if len(ends) != 2 or not all(ends):
        raise ValueError(f"{name!r} is neither a node nor a path between sites: write {FORM}")
    return ends[0], ends[1]


def place_name(place: Place) -> str:
    return str(place) if isinstance(place, int) else path_name(place)


def _parse_change(text: str) -> Change:
    at, equals, rates = text.strip().partition("=")
    up, _, down = rates.partition(">")
    if not equals:
        raise ValueError(f"{text!r} is no moment of a trace: write 20s=10mbit")
    up_bit = parse_rate(up, HIGHEST_RATE)
    down_bit = parse_rate(down, HIGHEST_RATE) if down else up_bit
    return Change(parse_duration(at, "moment", LONGEST_S), up_bit, down_bit)


def checked(changes: Sequence[Change]) -> Trace:
    """Without moments at which nothing changes; ValueError for a trace that goes backwards."""
    kept: list[Change] = []
    for before, change in zip([None, *changes], changes, strict=False):
        if before is not None and change.at_s <= before.at_s:
            raise ValueError(f"goes backwards: after {before.at_s:g} s comes {change.at_s:g} s")
        if not kept or (change.up_bit, change.down_bit) != (kept[-1].up_bit, kept[-1].down_bit):
            kept.append(change)
    for before, change in itertools.pairwise(kept):
        if change.at_s - before.at_s < LEAST_GAP_S:
            raise ValueError(
                f"changes after {before.at_s:g} s and {change.at_s:g} s: {LEAST_GAP_S:g} s must be"
                " between two changes"
            )
    if not 0 < len(kept) <= MOST_CHANGES:
        raise ValueError(f"must have 1 to {MOST_CHANGES:,} changes, not {len(kept):,}")
    return tuple(kept)


# ------------------------------------------------------------------------------------------- files


def read_trace(text: str) -> Trace:
    """A file's: lines of seconds,mbit[,mbit to the node]; or a Mahimahi trace, whose lines are
    milliseconds in which a packet may leave."""
    lines = [line.strip() for line in text.splitlines()]
    rows = [(n, line) for n, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if rows and all(line.isascii() and line.isdigit() for _, line in rows):
        return _from_opportunities(rows)
    if rows and rows[0][1][0].isalpha():
        rows = rows[1:]  # names of columns
    return checked([_from_row(number, line) for number, line in rows])


def _from_row(number: int, line: str) -> Change:
    try:
        at_s, *rates = (float(value) for value in line.split(","))
        if len(rates) not in (1, 2) or not all(map(math.isfinite, (at_s, *rates))):
            raise ValueError
    except ValueError:
        raise ValueError(f"line {number} is not seconds,mbit: {line[:60]!r}") from None
    bits = [round(rate * 1e6) for rate in rates]
    if not 0 <= at_s <= LONGEST_S:
        raise ValueError(f"line {number}: seconds must be between 0 and {LONGEST_S:,}")
    if not all(LEAST_BIT <= rate <= HIGHEST_RATE for rate in bits):
        raise ValueError(
            f"line {number}: a rate must be between 0.1 and 10,000 mbit: {line[:60]!r}"
        )
    return Change(at_s, bits[0], bits[-1])


def _from_opportunities(rows: Iterable[tuple[int, str]]) -> Trace:
    """Mean rates of whole seconds; no link is slower than LEAST_BIT."""
    counts: Counter[int] = Counter()
    last_ms = 0
    for number, line in rows:
        at_ms = int(line[:12])
        if at_ms < last_ms:
            raise ValueError(f"goes backwards in line {number}: {at_ms} ms after {last_ms}")
        if at_ms > LONGEST_S * 1000:
            raise ValueError(f"line {number}: {at_ms} ms is more than {LONGEST_S:,} s")
        last_ms = at_ms
        counts[at_ms // BIN_MS] += 1
    seconds = max(1, last_ms // BIN_MS)  # the last one may not be whole
    if seconds > MOST_CHANGES:
        raise ValueError(f"takes {seconds:,} s; at most {MOST_CHANGES:,} are taken")
    rates = [max(LEAST_BIT, counts[k] * OPPORTUNITY_BITS * 1000 // BIN_MS) for k in range(seconds)]
    return checked([Change(float(k), rate, rate) for k, rate in enumerate(rates)])
