"""Is an accuracy better than guessing? Pure."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from cluster.spec.catalogue import DATASETS

CLASSES = {"mnist": 10, "fashion-mnist": 10, "cifar10": 10, "rte": 2}
STANDARD_ERRORS = 2


def is_chance_level(run: pd.Series[Any], accuracy: float) -> bool:
    """Whether one that guesses among the classes would get as far on as many test samples, or nearly."""
    classes = CLASSES.get(str(run["dataset"]))
    if classes is None:
        return False
    asked = run["test_size"]
    samples = DATASETS[str(run["dataset"])].test_size if pd.isna(asked) else int(asked)
    share = 1 / classes
    return accuracy <= share + STANDARD_ERRORS * math.sqrt(share * (1 - share) / samples)
