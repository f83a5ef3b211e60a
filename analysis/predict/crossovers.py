"""Where one strategy overtakes another, as workers or links change. Pure."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from analysis.predict.cost_model import Cluster
from analysis.predict.fitted import Fitted
from cluster.spec.strategies import STRATEGIES

StepTime = Callable[[str, float], float]
"""(strategy, number of workers or rate) -> seconds."""
MOST_WORKERS = 1024
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


@dataclass(frozen=True)
class Sweep:
    """Step times as the number of workers or the link changes, and the other stays."""

    by: str
    """workers or mbit."""
    stretches: tuple[Stretch, ...]
    """The fastest, of those that average everything at every step."""
    crossovers: tuple[tuple[Crossover, str], ...]
    """Of all pairs, in order; and what of it is outside of the fit."""


def sweeps(model: Fitted, clusters: Sequence[Cluster]) -> list[Sweep]:
    """By workers and by link, from clusters that differ only in their strategy."""
    most = max(MOST_WORKERS, clusters[0].workers)
    return [
        _sweep(model, clusters, "workers", [float(count) for count in worker_counts(most)]),
        _sweep(model, clusters, "mbit", rates_mbit()),
    ]


def _sweep(model: Fitted, clusters: Sequence[Cluster], by: str, values: Sequence[float]) -> Sweep:
    named = {cluster.strategy: cluster for cluster in clusters}
    full = [name for name in named if STRATEGIES[name].averages_everything]

    def at(name: str, value: float) -> Cluster:
        changed = {"workers": int(value)} if by == "workers" else {"rate_mbit": value}
        return dataclasses.replace(named[name], **changed)

    @functools.cache
    def step_s(name: str, value: float) -> float:
        return model.forecast(at(name, value)).step_s

    found = [
        (crossing, model.outside(at(crossing.faster, crossing.at)))
        for first, second in combinations(named, 2)
        for crossing in crossovers(first, second, values, step_s)
    ]
    found.sort(key=lambda pair: pair[0].at)
    return Sweep(by, tuple(fastest(full or list(named), values, step_s)), tuple(found))
