"""Does more traffic go with more accuracy? Pearson and Spearman, with an interval and a sentence. Pure.

Each configuration is one point, the mean of its seeds: repetitions add no new amount of traffic, and counted
as points they would make an interval look narrower than it is.

Intervals are Fisher's: z = atanh(r) is nearly normal with variance 1/(n-3) for Pearson, and (1 + r^2/2)/(n-3)
for Spearman (Bonett and Wright, 2000). They need n > 3, and mean little for small n, which is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 5
"""Configurations: below this an interval covers nearly everything, and nothing is claimed."""
SAME = 1.02
"""Bytes that differ by less than this factor differ in their headers only."""
Z_95 = 1.959964


@dataclass(frozen=True)
class Coefficient:
    value: float
    low: float
    high: float
    """95 %."""


@dataclass(frozen=True)
class Correlation:
    n: int
    pearson: Coefficient | None
    spearman: Coefficient | None
    sent_alike: bool = False

    @property
    def sentence(self) -> str:
        if self.n < FEWEST:
            several = "configuration" if self.n == 1 else "configurations"
            return f"{self.n} {several}: too few to say anything (at least {FEWEST} are needed)."
        if self.sent_alike:
            return f"All sent the same, within {SAME - 1:.0%}: there is nothing to correlate."
        if self.pearson is None or self.spearman is None:
            return "All learned the same: there is nothing to correlate."
        low, high = self.spearman.low, self.spearman.high
        if low > 0 or high < 0:
            more = "more" if low > 0 else "less"
            return f"Those that sent more are the {more} accurate ones: rank correlation {_text(self.spearman)}."
        line = self.pearson.low > 0 or self.pearson.high < 0
        but = (
            f" Along a straight line there is one ({self.pearson.value:+.2f}): a few points make it."
            if line
            else ""
        )
        return f"No clear relation: rank correlation {_text(self.spearman)}, which includes 0.{but}"


def _text(one: Coefficient) -> str:
    return f"{one.value:+.2f} (95 %: {one.low:+.2f} to {one.high:+.2f})"


def correlate(xs: Sequence[float], ys: Sequence[float]) -> Correlation:
    n = len(xs)
    if n < FEWEST:
        return Correlation(n, None, None)
    if not varies(xs):
        return Correlation(n, None, None, sent_alike=True)
    pearson, spearman = _pearson(xs, ys), _pearson(ranks(xs), ranks(ys))
    if pearson is None or spearman is None:
        return Correlation(n, None, None)
    variance = 1 / (n - 3)
    return Correlation(
        n,
        _with_interval(pearson, variance),
        _with_interval(spearman, variance * (1 + spearman**2 / 2)),
    )


def varies(xs: Sequence[float]) -> bool:
    """Whether more was sent here than there: not by so little that headers explain it."""
    return max(xs) > SAME * min(xs)


def ranks(values: Sequence[float]) -> list[float]:
    """From 1; equal values share the mean of their places."""
    order = sorted(values)
    first = {value: order.index(value) for value in set(values)}
    return [first[value] + (order.count(value) + 1) / 2 for value in values]


def _pearson(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """None where one of them does not vary."""
    mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    dx, dy = [x - mean_x for x in xs], [y - mean_y for y in ys]
    spread = math.sqrt(math.fsum(d * d for d in dx)) * math.sqrt(math.fsum(d * d for d in dy))
    if spread == 0:
        return None
    return max(-1.0, min(1.0, math.fsum(a * b for a, b in zip(dx, dy, strict=True)) / spread))


def _with_interval(value: float, variance: float) -> Coefficient:
    if abs(value) > 1 - 1e-12:
        return Coefficient(value, value, value)
    z, half = math.atanh(value), Z_95 * math.sqrt(variance)
    return Coefficient(value, math.tanh(z - half), math.tanh(z + half))
