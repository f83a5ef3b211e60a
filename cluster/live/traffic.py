"""The rates at which the nodes of a run send, while it lasts. Bounded: old readings thin out.

Readings are cumulative, so that leaving some out loses detail and never bytes.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

MOST_READINGS = 240
EVERY_S = 1.0
MOST_NODES = 10
"""More are summarised by the slowest, the median and the fastest node, as in the report."""
SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {
    "fastest node": max,
    "median node": median_low,
    "slowest node": min,
}

Reading = tuple[float, Mapping[int, int]]
"""Time in seconds, and each node's bytes sent so far."""


@dataclass(frozen=True)
class Rates:
    """Lines of a figure: times, and for each line its bits per second until then."""

    seconds: list[float]
    names: list[str]
    sent_bit: list[list[float]]


class Traffic:
    """`names` are the nodes' names, by rank."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._readings: list[Reading] = []
        self._every_s = EVERY_S

    def note(self, t: float, sent_bytes: Mapping[int, int]) -> bool:
        """Whether the reading was taken: those that follow too closely are not."""
        if self._readings and t < self._readings[-1][0] + self._every_s:
            return False
        self._readings.append((t, sent_bytes))
        if len(self._readings) > MOST_READINGS:
            self._readings = self._readings[::2]
            self._every_s *= 2
        return True

    def rates(self) -> Rates:
        began = self._readings[0][0] if self._readings else 0.0
        seconds = [round(t - began, 2) for t, _ in self._readings[1:]]
        lines = {
            self._names[rank]: [_rate(a, b, rank) for a, b in itertools.pairwise(self._readings)]
            for rank in sorted(self._readings[-1][1] if self._readings else ())
        }
        if len(lines) > MOST_NODES and seconds:
            columns = list(zip(*lines.values(), strict=True))
            lines = {name: [of(c) for c in columns] for name, of in SUMMARIES.items()}
        return Rates(seconds, list(lines), list(lines.values()))


def _rate(before: Reading, after: Reading, rank: int) -> float:
    """Bits per second. A counter that fell has restarted: its value is all new bytes."""
    new = after[1].get(rank, 0)
    old = before[1].get(rank, new)
    sent = new - old if new >= old else new
    return float(f"{8 * sent / (after[0] - before[0]):.4g}")
