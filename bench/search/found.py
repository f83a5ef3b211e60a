"""The scores of trials, in a file for each task: composition, options, score, predicted bytes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.search.tasks import Options

COLUMNS = ("composition", "options", "accuracy", "loss", "sent_bytes")


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

    def score(self, judged_by: str) -> float:
        """The larger the better."""
        if judged_by == "accuracy":
            return -1.0 if self.accuracy is None else self.accuracy
        return float("-inf") if self.loss is None else -self.loss


def best_of(trials: Iterable[Trial], judged_by: str) -> Trial:
    """The first of those that are equally good."""
    return max(trials, key=lambda trial: trial.score(judged_by))


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


def write_trials(path: Path, trials: Sequence[Trial], order: Sequence[str]) -> None:
    """By composition, in the order of the task."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for trial in sorted(trials, key=lambda trial: order.index(trial.composition)):
            accuracy, loss = (
                "" if value is None else f"{value:.6g}" for value in (trial.accuracy, trial.loss)
            )
            options = json.dumps(trial.options)
            row = (trial.composition, options, accuracy, loss, f"{trial.sent_bytes:.0f}")
            rows.writerow(row)
