"""Whether an accuracy is above the chance level."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from cluster.spec.catalogue import DATASETS

STANDARD_ERRORS = 2


def is_chance_level(run: pd.Series[Any], accuracy: float) -> bool:
    """Whether guessing could reach this accuracy, within two standard errors of the test set."""
    facts = DATASETS.get(str(run["dataset"]))
    if facts is None or not facts.classes:
        return False
    test_size = run["test_size"]
    samples = facts.test_size if pd.isna(test_size) else int(test_size)
    share = 1 / facts.classes
    return accuracy <= share + STANDARD_ERRORS * math.sqrt(share * (1 - share) / samples)
