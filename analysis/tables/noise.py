"""Which measured numbers differ by more than noise: one rule for every winner and every order.

Noise is the range over seeds. Times have noise of the machine, too: where the same computing (model
and batch) takes unequal times, a difference between steps is not the exchange's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster.observe.units import seconds_text

if TYPE_CHECKING:
    import pandas as pd

    from analysis.tables.configurations import Configuration
    from analysis.tables.score import Score

TIMES_AGREE = 0.15
"""Times within this share of each other are equal where no seeds tell the noise."""
TIE = 0.0005
"""Accuracies that differ by less are the same in the digits shown, or nearly."""


@dataclass(frozen=True)
class Measured:
    """One number of a configuration: mean and range over its seeds."""

    strategy: str
    label: str
    mean: float
    low: float
    high: float
    seeds: int = 1
    sd: float | None = None
    """Standard deviation over seeds; None with one."""
    is_time: bool = False
    less_is_better: bool = False


def measured(configurations: Sequence[Configuration], column: str) -> list[Measured]:
    """In ascending order, of those that know it."""
    return _in_order(configurations, lambda runs: runs[column], is_time=column.endswith("_s"))


def scores(configurations: Sequence[Configuration], score: Score) -> list[Measured]:
    """The best first, of those that have one."""
    found = _in_order(configurations, score.values, less_is_better=not score.higher_is_better)
    return found[::-1] if score.higher_is_better else found


def _in_order(
    configurations: Sequence[Configuration],
    read: Callable[[pd.DataFrame], pd.Series[float]],
    *,
    is_time: bool = False,
    less_is_better: bool = False,
) -> list[Measured]:
    found = []
    for configuration in configurations:
        values = read(configuration.runs).dropna().astype(float)
        if not values.empty:
            found.append(
                Measured(
                    configuration.strategy,
                    configuration.label,
                    float(values.mean()),
                    float(values.min()),
                    float(values.max()),
                    len(values),
                    float(values.std()) if len(values) > 1 else None,
                    is_time=is_time,
                    less_is_better=less_is_better or is_time,
                )
            )
    return sorted(found, key=lambda number: number.mean)


def distinguishable(first: Measured, second: Measured) -> bool:
    """Whether two numbers have an order: their ranges over seeds do not overlap.

    One seed has no range: times must then differ by more than TIMES_AGREE, and accuracies have no
    order at all.
    """
    less, more = sorted((first, second), key=lambda number: number.mean)
    if more.low <= less.high or more.mean - less.mean < (0 if less.is_time else TIE):
        return False
    if min(less.seeds, more.seeds) > 1:
        return True
    return less.is_time and more.mean > (1 + TIMES_AGREE) * less.mean


def not_distinguishable(best: Measured, others: Sequence[Measured]) -> list[Measured]:
    """Those that have no order with the best."""
    return [other for other in others if not distinguishable(best, other)]


def mean_text(text: Callable[[float], str], mean: float, sd: float) -> str:
    """12.3 ± 0.4 ms: the standard deviation in the unit and with the decimals of the mean."""
    number, _, unit = text(mean).partition(" ")
    try:
        size = float(number.replace(",", "")) / mean
    except (ValueError, ZeroDivisionError):
        return text(mean)
    decimals = len(number.partition(".")[2])
    spread = f"{abs(sd * size):.{decimals}f}"
    if sd and not float(spread):
        spread = f"<{10**-decimals:.{decimals}f}"
    return f"{number} ± {spread} {unit}".rstrip()


def why_no_order(numbers: Sequence[Measured]) -> str:
    repeated = "run" if numbers[0].is_time else "seed"
    if all(number.seeds == 1 for number in numbers):
        return f"one {repeated} each"
    if any(number.seeds == 1 for number in numbers):
        return f"some have one {repeated}"
    return f"their ranges over {repeated}s overlap"


def unequal_computing(medians: Iterable[float | None], steps: Iterable[float | None] = ()) -> str:
    """Why steps of one model and batch have no order, given their computing; empty if they do.

    Computing that is a small part of all steps may differ: it cannot make their order.
    """
    known = [median for median in medians if median]
    shortest = min((step for step in steps if step), default=0.0)
    if not known or max(known) - min(known) <= TIMES_AGREE * max(min(known), shortest):
        return ""
    return (
        f"no order: the same computing took {seconds_text(min(known))} to"
        f" {seconds_text(max(known))} per step, so the host was contended"
    )
