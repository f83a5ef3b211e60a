"""Runs that differ only in the number of workers: how well more of them help. Pure, on the tables of load.py.

    weak      every worker does the same per step (one batch size): a step should take as long with more workers.
              efficiency(N) = step(N0) / step(N)
    strong    all workers together do the same per epoch (one training set): an epoch should take N0/N of the time.
              speed-up(N) = epoch(N0) / epoch(N), efficiency(N) = speed-up(N) x N0/N

N0 is the fewest workers in the series: a `single` run of the same training serves as N = 1 of every strategy. Of
runs with one batch for all workers together (--global-batch-size) a step is strong scaling, and so is an epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.configurations import SAME, Configuration, mean, named
from analysis.load import Runs

NOT_SAME = ("workers", "batch_size", "passes")
"""Beside these, what a series shares. Batches may shrink with N; passes count only where equal or everybody."""


@dataclass(frozen=True)
class Size:
    workers: int
    step_s: float
    epoch_s: float
    same_batch: bool
    """Of a worker, as with the fewest workers."""
    step_efficiency: float | None
    speed_up: float
    efficiency: float


@dataclass(frozen=True)
class Series:
    label: str
    strategy: str
    sizes: tuple[Size, ...]


def find_series(runs: Runs, configurations: Sequence[Configuration]) -> list[Series]:
    groups: dict[tuple[str, ...], list[Configuration]] = {}
    singles: dict[tuple[str, ...], Configuration] = {}
    keys = [key for key in SAME if key not in ("workers", "batch_size")]
    training = ("engine", "model", "epochs", "train_size", "lr", "momentum", "link", "cpus")
    for one in configurations:
        if one.strategy == "single":
            singles[tuple(str(one.row[key]) for key in training)] = one
        groups.setdefault(tuple(str(one.row[key]) for key in keys), []).append(one)
    found = []
    for members in groups.values():
        base = singles.get(tuple(str(members[0].row[key]) for key in training))
        if members[0].strategy != "single" and base is not None:
            members = [base, *members]
        series = _series(runs, members)
        if series is not None:
            found.append(series)
    labels = named(
        next(one for one in configurations if one.label == series.label) for series in found
    )
    return [
        Series(_without_workers(one.label), series.strategy, series.sizes)
        for one, series in zip(labels, found, strict=True)
    ]


def _without_workers(label: str) -> str:
    return ", ".join(part for part in label.split(", ") if "worker" not in part)


def _series(runs: Runs, members: list[Configuration]) -> Series | None:
    """In order of workers; None where there is nothing to compare."""
    times = []
    for one in members:
        step, train = mean(runs, one, "step_median_s"), mean(runs, one, "train_s")
        if step and train and not pd.isna(one.row["batch_size"]):
            epochs = 1 if pd.isna(one.row["epochs"]) else int(one.row["epochs"])
            times.append(
                (int(one.row["workers"]), step, train / epochs, int(one.row["batch_size"]))
            )
    times.sort()
    if len({workers for workers, *_ in times}) < 2:
        return None
    least, first_step, first_epoch, batch = times[0]
    sizes = []
    for workers, step, epoch, own_batch in times:
        speed_up = first_epoch / epoch
        sizes.append(
            Size(
                workers=workers,
                step_s=step,
                epoch_s=epoch,
                same_batch=own_batch == batch,
                step_efficiency=first_step / step if own_batch == batch else None,
                speed_up=speed_up,
                efficiency=speed_up * least / workers,
            )
        )
    return Series(members[-1].label, members[-1].strategy, tuple(sizes))
