"""The points of learning curves: means and ranges over seeds, by step and by epoch."""

import math
from dataclasses import dataclass

import pandas as pd

from analysis.report.accuracy import curves
from analysis.tables.configurations import Configuration
from analysis.tables.load import Runs
from cluster.spec.catalogue import predictions_of

POINTS = 60
"""Of a training curve: each is the mean of the steps since the one before."""
AXES = ("step", "epoch", "seconds", "bytes")


@dataclass(frozen=True)
class Curve:
    """Of one configuration: a row per point, with mean, low, high and the four axes."""

    config: Configuration
    train: pd.DataFrame
    test: pd.DataFrame

    def knows(self, axis: str) -> bool:
        known = pd.concat([self.train[axis], self.test[axis]])
        return len(known) > 0 and bool(known.notna().all())


def find_curves(runs: Runs, configurations: list[Configuration], measure: str) -> list[Curve]:
    """`measure` is loss or accuracy. Configurations without points are left out."""
    found = [
        Curve(config, _train(runs, config, measure), _test(runs, config, measure))
        for config in configurations
    ]
    return [curve for curve in found if len(curve.train) or len(curve.test)]


def find_faults(runs: Runs, config: Configuration) -> pd.DataFrame:
    """Of its first run: each fault, and the seconds of training at which it began."""
    number = config.numbers[0]
    faults = runs.faults[runs.faults["number"] == number] if len(runs.faults) else runs.faults
    steps = runs.steps[runs.steps["number"] == number]
    if faults.empty or steps.empty:
        return pd.DataFrame(columns=["fault", "seconds"])
    seconds = [
        steps.loc[steps["step"] < step, "seconds"].max() if pd.notna(step) else 0.0
        for step in faults["step"]
    ]
    return faults[["fault"]].assign(seconds=pd.Series(seconds, faults.index).fillna(0.0))


def first_seed(runs: Runs, config: Configuration) -> pd.DataFrame:
    """The steps with a loss of its first run."""
    steps = runs.steps[runs.steps["number"] == config.numbers[0]]
    return steps.dropna(subset=["loss"])


def points(steps: pd.DataFrame) -> "pd.Series[int]":
    """The point that each step belongs to: at most POINTS of them."""
    numbers = sorted(steps["step"].unique())
    places = {step: at * POINTS // max(len(numbers), POINTS) for at, step in enumerate(numbers)}
    return steps["step"].map(places)


def _train(runs: Runs, config: Configuration, measure: str) -> pd.DataFrame:
    steps = config.rows(runs.steps)
    if measure == "loss":
        steps = steps.assign(value=steps["loss"])
    else:
        predictions = _known(config, "batch_size") * predictions_of(str(config.row["dataset"]))
        steps = steps.assign(value=steps["correct"] / predictions)
        if str(config.row["dataset"]) == "none":
            steps = steps.iloc[:0]
    steps = steps.dropna(subset=["value"])
    by_run = (
        steps.assign(point=points(steps))
        .groupby(["number", "point"], as_index=False)
        .agg(step=("step", "max"), seconds=("seconds", "max"), value=("value", "mean"))
    )
    payload = config.mean("train_payload_bytes")
    per_step = float("nan") if payload is None else payload / _steps(config)
    return _over_seeds(config, by_run.assign(bytes=by_run["step"] * per_step), "point")


def _test(runs: Runs, config: Configuration, measure: str) -> pd.DataFrame:
    scores = curves.with_payload(runs, config)
    scores = scores.assign(
        value=scores[measure].astype("float64"),
        step=scores["epoch"].astype("float64") * _steps(config) / _epochs(config),
        bytes=scores["payload_bytes"],
    )
    return _over_seeds(config, scores.dropna(subset=["value"]), "epoch")


def _known(config: Configuration, name: str) -> float:
    """Not a number where a damaged run does not have it, or has none."""
    value = config.row[name]
    return float("nan") if pd.isna(value) or not value else float(value)


def _steps(config: Configuration) -> float:
    return _known(config, "steps")


def _epochs(config: Configuration) -> float:
    epochs = _known(config, "epochs")
    return 1.0 if math.isnan(epochs) else epochs


def _over_seeds(config: Configuration, by_run: pd.DataFrame, key: str) -> pd.DataFrame:
    """Mean and range of the points that every seed has."""
    count = by_run["number"].nunique()
    found = by_run.groupby(key, sort=True).agg(
        runs=("number", "nunique"),
        mean=("value", "mean"),
        low=("value", "min"),
        high=("value", "max"),
        step=("step", "mean"),
        seconds=("seconds", "mean"),
        bytes=("bytes", "mean"),
    )
    found = found[found["runs"] == count].astype("float64")
    return found.assign(epoch=found["step"] * _epochs(config) / _steps(config))
