"""Accuracy against bytes: a configuration's curve, the frontier, the cost of a target accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.tables.configurations import Configuration, is_chance_level, mean_of
from analysis.tables.load import Runs
from analysis.tables.score import ACCURACY, Score, score_of
from cluster.spec.schedules.unpaced import PAIRWISE


@dataclass(frozen=True)
class Point:
    """One epoch: mean of the score over seeds, and its range."""

    epoch: int
    payload_bytes: float
    """NaN where they are not known."""
    score: float
    """Accuracy, or what the task is judged by (analysis/tables/score.py)."""
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


def target_text(target: float, score: Score = ACCURACY) -> str:
    if score is ACCURACY:
        return f"{100 * target:.4g} %"
    return f"{target:.4g} {score.name}"


def scored(runs: Runs, configuration: Configuration) -> pd.DataFrame:
    """Its points, with their `score`."""
    points = with_payload(runs, configuration)
    points = points.assign(score=score_of(configuration.row).values(points))
    return points.dropna(subset=["score"])


def with_payload(runs: Runs, configuration: Configuration) -> pd.DataFrame:
    """Every epoch, and the payload until then: the interfaces' bytes, less the share of headers."""
    points = configuration.rows(runs.curves)
    sent = configuration.runs["train_sent_bytes"].astype(float)
    share = (configuration.runs["train_payload_bytes"].astype(float) / sent).where(sent != 0, 1)
    if configuration.is_virtual:  # a curve's bytes are predicted payload
        share = share.fillna(1.0)
    payload = points["sent_bytes"].astype(float) * points["number"].map(share).astype(float)
    return points.assign(payload_bytes=payload + final_averaging_bytes(configuration))


def final_averaging_bytes(configuration: Configuration) -> float:
    """Payload of the all-reduce that makes the model whose accuracy counts, all nodes together.

    Groups smaller than the cluster (pairwise) never make it in training, nor do pairs without a
    barrier, nor workers that average a share of their parameters; all others do.
    """
    row, workers = configuration.row, configuration.workers
    in_groups = not pd.isna(row["passes"]) and row["passes"] < workers - 1
    share = _averaged_share(row)
    in_pairs = configuration.strategy == PAIRWISE
    if not (in_groups or in_pairs) and share == 1:
        return 0.0
    return 2.0 * (workers - 1) * float(row["model_bytes"]) / share


def _averaged_share(row: pd.Series[Any]) -> float:
    """Of the parameters, by random places; 1 where all are averaged, or differences exchanged."""
    name, _, share = str(row["compress"]).partition(":")
    if name != "randk" or row["average"] != "parameters" or row["strategy"] == "local-sgd":
        return 1.0
    try:
        return min(1.0, max(float(share), 1e-9))
    except ValueError:  # of a run folder that somebody else wrote
        return 1.0


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
            values = members["score"]
            numbers = float(values.mean()), float(values.min()), float(values.max())
            found.append(Point(int(str(epoch)), sent, *numbers))
    return found


def frontier(ends: Sequence[tuple[float, float]], higher_is_better: bool = True) -> list[int]:
    """Places of the (bytes, score) that no other beats in both; by bytes."""
    sign = 1 if higher_is_better else -1
    best, found = -math.inf, []
    for place in sorted(range(len(ends)), key=lambda at: (ends[at][0], -sign * ends[at][1])):
        if sign * ends[place][1] > best:
            best = sign * ends[place][1]
            found.append(place)
    return found


def reached(runs: Runs, configuration: Configuration, target: float) -> Reached:
    """At the first epoch whose score is the target or better."""
    points = scored(runs, configuration)
    is_there = score_of(configuration.row).is_reached(points["score"], target)
    first = points[is_there].groupby("number").head(1)
    epochs, sent, seconds = (mean_of(first[name]) for name in ("epoch", "payload_bytes", "seconds"))
    spread = float(first["payload_bytes"].std())
    return Reached(len(first), len(configuration.numbers), epochs, sent, seconds, spread)


def usual_target(runs: Runs, configurations: Sequence[Configuration]) -> float | None:
    """The best round number that half of the configurations have in the end, in all runs.

    The end is scored on the whole test set, the epochs before it on fewer samples. None where
    guessing reaches it: its cost would say nothing.
    """
    found = [scored(runs, configuration) for configuration in configurations]
    ends = [points.groupby("number")["score"].last() for points in found if not points.empty]
    if not ends or all(config.is_chance_level for config in configurations):
        return None
    score = score_of(configurations[0].row)
    better = score.higher_is_better
    finals = sorted((float(end.min() if better else end.max()) for end in ends), reverse=better)
    target = score.usual_target(finals[(len(finals) - 1) // 2])
    is_guessing = better and is_chance_level(configurations[0].row, target)
    return None if is_guessing else target
