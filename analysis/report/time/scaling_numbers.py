"""Runs that differ only in the number of workers: how well more of them help. Pure, on the tables of load.py.

    weak      every worker does the same per step (one batch size): a step should take as long with more workers.
              efficiency(N) = step(N0) / step(N)
    strong    all workers together do the same per epoch (one training set): an epoch should take N0/N of the time.
              speed-up(N) = epoch(N0) / epoch(N), efficiency(N) = speed-up(N) x N0/N

N0 is the fewest workers in the series. A series has one batch size per worker, or else one batch for all workers
together (--global-batch-size), where a step is strong scaling, too. A `single` run of the same training, with the
series' batch, serves as N = 1 where the strategy has no such run of its own. The first epoch warms up: an epoch is
the mean of those after it, where there are any.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.tables.configurations import SAME, Configuration, mean, named
from analysis.tables.load import Runs

TRAINING = (
    *("engine", "model", "dataset", "epochs", "train_size", "lr", "momentum", "optimizer"),
    *("augment", "cpus", "gpu"),
)
"""What a `single` run shares with those whose N = 1 it is; it has no link."""
ROUNDED = 0.02
"""256 samples over 3 workers are 85 each, so 255: still one batch for all."""


@dataclass(frozen=True)
class Size:
    workers: int
    step_s: float
    epoch_s: float
    step_efficiency: float | None
    """Where a worker's batch is that of the fewest workers."""
    speed_up: float
    efficiency: float


@dataclass(frozen=True)
class Series:
    label: str
    strategy: str
    sizes: tuple[Size, ...]


@dataclass(frozen=True)
class Members:
    """Runs of one series, by workers."""

    found: tuple[Configuration, ...]
    batch: int
    """Of a worker, or of all together."""
    over_all: bool

    @property
    def batch_text(self) -> str:
        return f"{self.batch:,} samples {'over all workers' if self.over_all else 'a worker'}"


def find_series(runs: Runs, configurations: Sequence[Configuration]) -> list[Series]:
    found = [
        (members, sizes)
        for members in _find_members(configurations)
        if len(sizes := _sizes(runs, members)) > 1
    ]
    labels = _labels([members for members, _ in found])
    return [
        Series(label, members.found[-1].strategy, sizes)
        for label, (members, sizes) in zip(labels, found, strict=True)
    ]


def _find_members(configurations: Sequence[Configuration]) -> Iterator[Members]:
    keys = [key for key in SAME if key not in ("workers", "batch_size")]
    groups: dict[tuple[str, ...], list[Configuration]] = {}
    singles: dict[tuple[str, ...], dict[int, Configuration]] = {}
    for one in configurations:
        if pd.isna(one.row["batch_size"]):
            continue
        if one.strategy == "single":
            singles.setdefault(_values(one, TRAINING), {})[_batch(one)] = one
        else:
            groups.setdefault(_values(one, keys), []).append(one)
    for group in groups.values():
        alone = singles.get(_values(group[0], TRAINING), {})
        taken: set[int] = set()
        for batch in sorted({_batch(one) for one in group}):
            same = [one for one in group if _batch(one) == batch]
            members = _with_base(same, alone.get(batch))
            if len(members) > 1:
                taken.update(id(one) for one in same)
                yield Members(tuple(members), batch, over_all=False)
        rest = [one for one in group if id(one) not in taken]
        while rest:
            whole = max(_batch(one) * _workers(one) for one in rest)
            same = [one for one in rest if _batch(one) * _workers(one) >= whole * (1 - ROUNDED)]
            rest = [one for one in rest if one not in same]
            base = next(
                (alone[size] for size in alone if whole * (1 - ROUNDED) <= size <= whole), None
            )
            members = _with_base(same, base)
            if len({_workers(one) for one in members}) == len(members) > 1:
                yield Members(tuple(members), whole, over_all=True)


def _values(one: Configuration, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(one.row[key]) for key in keys)


def _batch(one: Configuration) -> int:
    return int(one.row["batch_size"])


def _workers(one: Configuration) -> int:
    return int(one.row["workers"])


def _with_base(members: list[Configuration], base: Configuration | None) -> list[Configuration]:
    """In order of workers; the base where they have no run of one worker."""
    ordered = sorted(members, key=_workers)
    if base is not None and _workers(ordered[0]) > 1:
        ordered.insert(0, base)
    return ordered


def _sizes(runs: Runs, members: Members) -> tuple[Size, ...]:
    times = [
        (_workers(one), step, epoch)
        for one in members.found
        if (step := mean(runs, one, "step_median_s")) and (epoch := _epoch_s(runs, one))
    ]
    if not times:
        return ()
    least, first_step, first_epoch = times[0]
    return tuple(
        Size(
            workers=workers,
            step_s=step,
            epoch_s=epoch,
            step_efficiency=None if members.over_all else first_step / step,
            speed_up=first_epoch / epoch,
            efficiency=first_epoch / epoch * least / workers,
        )
        for workers, step, epoch in times
    )


def _epoch_s(runs: Runs, one: Configuration) -> float | None:
    later = runs.epochs[runs.epochs["number"].isin(one.numbers) & (runs.epochs["epoch"] > 1)]
    seconds = later["seconds"].dropna()
    if not seconds.empty:
        return float(seconds.mean())
    train = mean(runs, one, "train_s")
    epochs = 1 if pd.isna(one.row["epochs"]) else int(one.row["epochs"])
    return train / epochs if train else None


def _labels(series: Sequence[Members]) -> list[str]:
    """What tells series of a task apart, the batch where nothing else does or it is one for all; then the task."""
    tasks: dict[str, list[int]] = {}
    for place, members in enumerate(series):
        tasks.setdefault(members.found[-1].task, []).append(place)
    labels = [""] * len(series)
    for task, places in tasks.items():
        plain = [_without_batch(series[place].found[-1]) for place in places]
        found = [one.label for one in named(plain, with_workers=False)]
        for place, label in zip(places, found, strict=True):
            members = series[place]
            with_batch = members.over_all or found.count(label) > 1
            parts = [
                label,
                members.batch_text if with_batch else "",
                task if len(tasks) > 1 else "",
            ]
            labels[place] = ", ".join(part for part in parts if part)
    return labels


def _without_batch(one: Configuration) -> Configuration:
    row = one.row.copy()
    row["batch_size"] = pd.NA
    return dataclasses.replace(one, row=row)
