"""Where one strategy overtakes another, as workers or links change. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

StepTime = Callable[[str, float], float]
"""(strategy, number of workers or rate) -> seconds."""
TIE = 0.01
"""Relative: step times that differ by less are equal."""


@dataclass(frozen=True)
class Crossover:
    at: float
    """The first value at which `faster` is the faster one."""
    faster: str
    slower: str


@dataclass(frozen=True)
class Stretch:
    """From `low` to `high` these are the fastest, within TIE of each other."""

    low: float
    high: float
    fastest: tuple[str, ...]


def crossovers(
    first: str, second: str, values: Sequence[float], step_s: StepTime
) -> list[Crossover]:
    """In the order of `values`; a tie is no overtaking."""
    found: list[Crossover] = []
    leader: str | None = None
    for value in values:
        a, b = step_s(first, value), step_s(second, value)
        if abs(a - b) <= TIE * min(a, b):
            continue
        faster, slower = (first, second) if a < b else (second, first)
        if leader is not None and faster != leader:
            found.append(Crossover(value, faster, slower))
        leader = faster
    return found


def fastest(strategies: Sequence[str], values: Iterable[float], step_s: StepTime) -> list[Stretch]:
    found: list[Stretch] = []
    for value in values:
        times = {name: step_s(name, value) for name in strategies}
        least = min(times.values())
        first = tuple(name for name in strategies if times[name] <= least * (1 + TIE))
        if found and found[-1].fastest == first:
            found[-1] = Stretch(found[-1].low, value, first)
        else:
            found.append(Stretch(value, value, first))
    return found


def worker_counts(most: int) -> list[int]:
    """From 2: every number while they are small, then in steps of a twelfth."""
    counts, n = [], 2.0
    while n <= most:
        counts.append(int(n))
        n = max(n + 1, n * 13 / 12)
    return [*counts, most] if counts and counts[-1] != most else counts


def rates_mbit() -> list[float]:
    """From 1 to 100,000 Mbit/s, ten rates per decade."""
    return [float(f"{10 ** (step / 10):.3g}") for step in range(51)]
