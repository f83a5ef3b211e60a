"""Accuracy against bytes: a configuration's curve, the frontier, the cost of a target accuracy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.tables.configurations import Configuration, is_chance_level, mean_of
from analysis.tables.load import Runs


@dataclass(frozen=True)
class Point:
    """One epoch: means over seeds, and the least and most accurate of them."""

    epoch: int
    payload_bytes: float
    """NaN where they are not known."""
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class Reached:
    """The cost of an accuracy: means over the seeds that reached it."""

    seeds: int
    of: int
    epochs: float | None = None
    payload_bytes: float | None = None
    seconds: float | None = None
    payload_bytes_sd: float | None = None
    """NaN with one seed."""


def target_text(target: float) -> str:
    return f"{100 * target:.4g} %"


def scored(runs: Runs, configuration: Configuration) -> pd.DataFrame:
    return with_payload(runs, configuration).dropna(subset=["accuracy"])


def with_payload(runs: Runs, configuration: Configuration) -> pd.DataFrame:
    """Every epoch, and the payload until then: the interfaces' bytes, less the share of headers."""
    points = configuration.rows(runs.curves)
    sent = configuration.runs["train_sent_bytes"].astype(float)
    share = (configuration.runs["train_payload_bytes"].astype(float) / sent).where(sent != 0, 1)
    payload = points["sent_bytes"].astype(float) * points["number"].map(share).astype(float)
    return points.assign(payload_bytes=payload + final_averaging_bytes(configuration))


def final_averaging_bytes(configuration: Configuration) -> float:
    """Payload of the all-reduce that makes the model whose accuracy counts, all nodes together.

    Groups smaller than the cluster (pairwise) never make it in training; all others do.
    """
    passes, workers = configuration.row["passes"], configuration.workers
    if pd.isna(passes) or passes >= workers - 1:
        return 0.0
    return 2.0 * (workers - 1) * float(configuration.row["model_bytes"])


def samples_text(runs: Runs) -> str:
    """How many test samples the epochs before the last are scored on."""
    counts = runs.curves.groupby("number").apply(lambda points: points["test_samples"].iloc[:-1])
    known = sorted({int(count) for count in counts.to_numpy().ravel() if not pd.isna(count)})
    if not known:
        return "at most 2,000"  # as runs did that are older than curve.test_samples
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,}"


def curve(runs: Runs, configuration: Configuration) -> list[Point]:
    """The epochs that all of its runs have."""
    points = scored(runs, configuration)
    found = []
    for epoch, members in points.groupby("epoch", sort=True):
        if len(members) == points["number"].nunique():
            sent = float(members["payload_bytes"].mean())
            values = members["accuracy"]
            numbers = float(values.mean()), float(values.min()), float(values.max())
            found.append(Point(int(str(epoch)), sent, *numbers))
    return found


def frontier(ends: Sequence[tuple[float, float]]) -> list[int]:
    """Places of the (bytes, accuracy) that no other beats in both; by bytes."""
    best, found = -math.inf, []
    for place in sorted(range(len(ends)), key=lambda at: (ends[at][0], -ends[at][1])):
        if ends[place][1] > best:
            best = ends[place][1]
            found.append(place)
    return found


def reached(runs: Runs, configuration: Configuration, target: float) -> Reached:
    """At the first epoch whose accuracy is the target or more."""
    points = scored(runs, configuration)
    first = points[points["accuracy"] >= target].groupby("number").head(1)
    epochs, sent, seconds = (mean_of(first[name]) for name in ("epoch", "payload_bytes", "seconds"))
    spread = float(first["payload_bytes"].std())
    return Reached(len(first), len(configuration.numbers), epochs, sent, seconds, spread)


def usual_target(runs: Runs, configurations: Sequence[Configuration]) -> float | None:
    """The highest whole percent that half of the configurations have in the end, in all runs.

    The end is scored on the whole test set, the epochs before it on fewer samples. None where
    guessing reaches it: its cost would say nothing.
    """
    found = [scored(runs, configuration) for configuration in configurations]
    finals = [
        float(points.groupby("number")["accuracy"].last().min())
        for points in found
        if not points.empty
    ]
    if not finals or all(config.is_chance_level for config in configurations):
        return None
    finals.sort(reverse=True)
    target = math.floor(100 * finals[(len(finals) - 1) // 2] + 1e-9) / 100
    return None if is_chance_level(configurations[0].row, target) else target
