"""Where one strategy overtakes another, as workers or links change. Pure.

Two predictions are told apart where they differ by more than the model's own error (Fitted.tie).
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from analysis.predict.fitted import Fitted
from analysis.predict.forecast import Cluster
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.links import Link

MOST_BY_LINK = 64
"""Workers: with more, a simulation at every rate would take too long."""
StepTime = Callable[[str, float], float]
"""(strategy, number of workers or rate) -> seconds."""


@dataclass(frozen=True)
class Crossover:
    after: float
    """The last value at which `slower` was the faster one."""
    at: float
    """The first value at which `faster` is."""
    faster: str
    slower: str


@dataclass(frozen=True)
class Stretch:
    """From `low` to `high` these are the fastest, and not told apart."""

    low: float
    high: float
    fastest: tuple[str, ...]


def crossovers(
    first: str, second: str, values: Sequence[float], step_s: StepTime, tie: float
) -> list[Crossover]:
    """In the order of `values`; a tie is no overtaking."""
    found: list[Crossover] = []
    leader, led_at = None, 0.0
    for value in values:
        a, b = step_s(first, value), step_s(second, value)
        if abs(a - b) <= tie * min(a, b):
            continue
        faster, slower = (first, second) if a < b else (second, first)
        if leader is not None and faster != leader:
            found.append(Crossover(led_at, value, faster, slower))
        leader, led_at = faster, value
    return found


def fastest(
    strategies: Sequence[str], values: Iterable[float], step_s: StepTime, tie: float
) -> list[Stretch]:
    found: list[Stretch] = []
    for value in values:
        times = {name: step_s(name, value) for name in strategies}
        least = min(times.values())
        first = tuple(name for name in strategies if times[name] <= least * (1 + tie))
        if found and found[-1].fastest == first:
            found[-1] = Stretch(found[-1].low, value, first)
        else:
            found.append(Stretch(value, value, first))
    return found


def worker_counts(most: int) -> list[int]:
    """From 2, doubling, and the most."""
    counts = [2**power for power in range(1, most.bit_length()) if 2**power < most]
    return [*counts, most]


def rates_mbit() -> list[float]:
    """From 1 to 100,000 Mbit/s, three rates per decade."""
    return [float(f"{10 ** (step / 3):.2g}") for step in range(16)]


@dataclass(frozen=True)
class Sweep:
    """Step times as the number of workers or the link changes, and the other stays."""

    by: str
    """workers or mbit."""
    stretches: tuple[Stretch, ...]
    """The fastest, of those that average everything at every step."""
    crossovers: tuple[Crossover, ...]
    """Of all pairs, in order."""


def sweeps(model: Fitted, clusters: Sequence[Cluster]) -> list[Sweep]:
    """By workers and by link, from clusters that differ only in their strategy."""
    workers = clusters[0].workers
    found = [_sweep(model, clusters, "workers", [float(n) for n in worker_counts(workers)])]
    if workers <= MOST_BY_LINK:
        found.append(_sweep(model, clusters, "mbit", rates_mbit()))
    return found


def _sweep(model: Fitted, clusters: Sequence[Cluster], by: str, values: Sequence[float]) -> Sweep:
    named = {cluster.strategy: cluster for cluster in clusters}
    full = [name for name in named if STRATEGIES[name].averages_everything]

    @functools.cache
    def step_s(name: str, value: float) -> float:
        cluster = named[name]
        if by == "workers":
            changed = dataclasses.replace(cluster, workers=int(value))
        else:
            delay_s = cluster.link.delay_s if cluster.link else 0.0
            changed = dataclasses.replace(cluster, link=Link(round(value * 1e6), delay_s))
        return model.forecast(changed).step_s

    found = [
        crossing
        for first, second in combinations(named, 2)
        for crossing in crossovers(first, second, values, step_s, model.tie)
    ]
    found.sort(key=lambda crossing: crossing.at)
    stretches = fastest(full or list(named), values, step_s, model.tie)
    return Sweep(by, tuple(stretches), tuple(found))
