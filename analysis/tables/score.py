"""By what a task is judged: accuracy, or bits per byte where every byte of a text is predicted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cluster.observe.units import bits_per_byte_text, percent_text
from cluster.spec.options import BITS_PER_NAT, is_judged_by_bits

BITS_SUFFIX, BITS_OF_A_BYTE = "bits", 8


@dataclass(frozen=True)
class Score:
    name: str
    column: str
    """Of the tables of runs and curves."""
    factor: float
    """From that column."""
    higher_is_better: bool
    text: Callable[[float], str]
    winner: str
    """The question that names the best."""

    def values(self, table: pd.DataFrame) -> pd.Series[float]:
        """Of runs or of points of curves."""
        return table[self.column].astype(float) * self.factor

    def is_reached(self, values: pd.Series[float], target: float) -> pd.Series[bool]:
        return values >= target if self.higher_is_better else values <= target

    def usual_target(self, value: float) -> float:
        """The next round number that this value reaches."""
        if self.higher_is_better:
            return math.floor(100 * value + 1e-9) / 100
        return math.ceil(20 * value - 1e-9) / 20


ACCURACY = Score("accuracy", "accuracy", 1.0, True, percent_text, "Most accurate")
BITS = Score(
    "bits per byte", "loss", BITS_PER_NAT, False, bits_per_byte_text, "Fewest bits per byte"
)
"""The test loss, which is in nats; 2 to the power of it is the perplexity of a byte."""


@dataclass(frozen=True)
class Target:
    """What is to be reached, of tasks that are judged by this score."""

    score: Score
    value: float


def parse_target(text: str) -> Target:
    """0.9 and 90% are an accuracy, 3.5bits is bits per byte; ValueError for anything else."""
    if text.endswith(BITS_SUFFIX):
        bits = float(text.removesuffix(BITS_SUFFIX))
        if 0 < bits <= BITS_OF_A_BYTE:
            return Target(BITS, bits)
        raise ValueError(text)
    accuracy = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    if not 0 < accuracy <= 1:
        raise ValueError(text)
    return Target(ACCURACY, accuracy)


def score_of(run: pd.Series[Any]) -> Score:
    """Of a run's task."""
    dataset, loss = (str(run[name]) for name in ("dataset", "loss_function"))
    return BITS if is_judged_by_bits(dataset, loss) else ACCURACY
