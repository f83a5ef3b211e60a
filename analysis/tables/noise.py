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
    from analysis.tables.configurations import Configuration

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


def measured(configurations: Sequence[Configuration], column: str) -> list[Measured]:
    """In ascending order, of those that know it."""
    found = []
    for configuration in configurations:
        values = configuration.runs[column].dropna().astype(float)
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
                    is_time=column.endswith("_s"),
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
    return f"{number} ± {abs(sd * size):.{decimals}f} {unit}".rstrip()


def why_no_order(numbers: Sequence[Measured]) -> str:
    if any(number.seeds == 1 for number in numbers):
        return "one seed each"
    return "their ranges over seeds overlap"


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
