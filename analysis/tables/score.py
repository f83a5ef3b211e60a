"""By what a task is judged: accuracy, or bits per byte where every byte of a text is predicted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cluster.observe.units import bits_per_byte_text, percent_text
from cluster.spec.catalogue import is_text
from cluster.spec.options import CROSS_ENTROPY


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
    "bits per byte", "loss", 1 / math.log(2), False, bits_per_byte_text, "Fewest bits per byte"
)
"""The test loss, which is in nats; 2 to the power of it is the perplexity of a byte."""


def score_of(run: pd.Series[Any]) -> Score:
    """Of a run's task, by its data set; a loss of the user's own is in no known unit."""
    is_known = pd.isna(run["loss_function"]) or run["loss_function"] == CROSS_ENTROPY
    return BITS if is_known and is_text(str(run["dataset"])) else ACCURACY
