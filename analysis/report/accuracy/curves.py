"""Accuracy against bytes: a configuration's curve with its seeds as a band, the frontier, the cost of a target.

Pure, on the tables of load.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.tables.configurations import Configuration
from analysis.tables.load import Runs


@dataclass(frozen=True)
class Point:
    """One epoch: means over seeds, and the least and most accurate of them."""

    epoch: int
    sent_bytes: float
    """NaN where they are not known."""
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class Reached:
    """What it took a configuration to get to an accuracy, on average over the seeds that did."""

    seeds: int
    of: int
    epochs: float | None = None
    sent_bytes: float | None = None
    seconds: float | None = None


def curve(runs: Runs, one: Configuration) -> list[Point]:
    """The epochs that all of its runs have."""
    points = runs.curves[runs.curves["number"].isin(one.numbers)].dropna(subset=["accuracy"])
    found = []
    for epoch, members in points.groupby("epoch", sort=True):
        if len(members) == points["number"].nunique():
            values = members["accuracy"]
            sent = float(members["sent_bytes"].astype(float).mean())
            found.append(
                Point(
                    int(str(epoch)),
                    sent,
                    float(values.mean()),
                    float(values.min()),
                    float(values.max()),
                )
            )
    return found


def frontier(ends: Sequence[tuple[float, float]]) -> list[int]:
    """Places of the (bytes, accuracy) that no other beats: fewer bytes and more accuracy. By bytes."""
    best, found = -math.inf, []
    for place in sorted(range(len(ends)), key=lambda at: (ends[at][0], -ends[at][1])):
        if ends[place][1] > best:
            best = ends[place][1]
            found.append(place)
    return found


def reached(runs: Runs, one: Configuration, target: float) -> Reached:
    """At the first epoch whose accuracy is the target or more."""
    first = []
    for number in one.numbers:
        points = runs.curves[runs.curves["number"] == number].dropna(subset=["accuracy"])
        there = points[points["accuracy"] >= target]
        if not there.empty:
            first.append(there.iloc[0])
    if not first:
        return Reached(0, len(one.numbers))
    table = pd.DataFrame(first)
    sent, seconds = table["sent_bytes"].dropna(), table["seconds"].dropna()
    return Reached(
        len(first),
        len(one.numbers),
        float(table["epoch"].astype(float).mean()),
        None if sent.empty else float(sent.astype(float).mean()),
        None if seconds.empty else float(seconds.astype(float).mean()),
    )


def usual_target(runs: Runs, configurations: Sequence[Configuration]) -> float | None:
    """The highest whole percent that half of the configurations reach in all of their runs."""
    bests = []
    for one in configurations:
        points = runs.curves[runs.curves["number"].isin(one.numbers)].dropna(subset=["accuracy"])
        if not points.empty:
            bests.append(float(points.groupby("number")["accuracy"].max().min()))
    if not bests:
        return None
    bests.sort(reverse=True)
    return math.floor(100 * bests[(len(bests) - 1) // 2] + 1e-9) / 100
