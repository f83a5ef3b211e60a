"""The scores of trials, in a file for each task, to which every trial adds a line."""

from __future__ import annotations

import csv
import datetime
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.search.tasks import Options

COLUMNS = ("composition", "options", "accuracy", "loss", "sent_bytes", "date")


@dataclass(frozen=True)
class Trial:
    composition: str
    options: Options
    """Those that were drawn."""
    accuracy: float | None
    """On held-out samples, as the loss."""
    loss: float | None
    """None where it is not finite: training diverged."""
    sent_bytes: float
    """Payload of a worker in training, predicted."""

    @property
    def score(self) -> float:
        """The smaller the better."""
        return math.inf if self.loss is None else self.loss


def best_of(trials: Iterable[Trial]) -> Trial:
    """The first of those that are equally good."""
    return min(trials, key=lambda trial: trial.score)


def read_trials(path: Path) -> list[Trial]:
    """None where nothing was searched yet."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Trial(
                row["composition"],
                json.loads(row["options"]),
                float(row["accuracy"]) if row["accuracy"] else None,
                float(row["loss"]) if row["loss"] else None,
                float(row["sent_bytes"]),
            )
            for row in csv.DictReader(file)
        ]


def add_trial(path: Path, trial: Trial) -> None:
    accuracy, loss = ("" if v is None else f"{v:.6g}" for v in (trial.accuracy, trial.loss))
    options, today = json.dumps(trial.options), datetime.date.today().isoformat()
    row = (trial.composition, options, accuracy, loss, f"{trial.sent_bytes:.0f}", today)
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, row] if is_new else [row])
