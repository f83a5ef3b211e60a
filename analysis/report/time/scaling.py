"""Scaling: runs that differ only in the number of workers.

    weak      efficiency(N) = step(N0) / step(N)
    strong    speed-up(N) = rate(N) / rate(N0), efficiency(N) = speed-up(N) x N0/N

N0 is the fewest workers in a series, the rate is in samples per second of all workers together:
incomplete batches are dropped, so epochs of unequal N hold unequal numbers of samples. NOTE says
what is equal in a series. With one batch for all workers together (--global-batch-size) a step is
strong scaling, too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.report import figures
from analysis.report.context import Report, computing_differs
from analysis.report.page import Chart, Column, Row, Section, Table
from analysis.tables.configurations import (
    SAME,
    Configuration,
    grouped,
    mean_of,
    named,
    samples_per_epoch,
)
from analysis.tables.load import Runs
from cluster.observe.units import four_digits, percents, seconds_text

COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("workers", "workers"),
    Column("step", "step_s", seconds_text),
    Column("weak efficiency (step)", "step_efficiency", percents(0), from_times=True),
    Column("epoch", "epoch_s", seconds_text),
    Column("samples per second", "samples_per_s", four_digits, from_times=True),
    Column("speed-up (samples per second)", "speed_up", "{:.2f}".format, from_times=True),
    Column("strong efficiency", "efficiency", percents(0), from_times=True),
]
NOTE = (
    "Runs that differ only in the number of workers, with one batch size per worker or one batch"
    " for all workers together; a single run of the same training and batch stands for one worker."
    " Weak scaling: with one batch size per worker a step should take as long with more workers."
    " Strong scaling: all workers share one training set, so N workers should train on N/N0 times"
    " as many samples per second as the fewest workers, N0. Epochs are not compared: incomplete"
    " batches are dropped, so an epoch of more workers may hold fewer samples. The first epoch, a"
    " warm-up, is left out where there are others. The nodes of an emulated cluster share the"
    " machine's cores: with real computing most of the loss"
    " is due to that; with a synthetic model only the network is real."
)
TRAINING = (
    *("engine", "model", "dataset", "epochs", "train_size", "lr", "momentum", "optimizer"),
    *("augment", "cpus", "gpu"),
)
"""What a `single` run must share to be the N = 1 of a series; it has no link."""
ROUNDED = 0.02
"""256 samples over 3 workers are 85 each, so 255: still one batch for all."""


@dataclass(frozen=True)
class Size:
    workers: int
    step_s: float
    epoch_s: float
    samples_per_s: float
    """Of all workers together."""
    step_efficiency: float | None
    """Where a worker's batch is that of the fewest workers."""
    speed_up: float
    efficiency: float


@dataclass(frozen=True)
class Series:
    runs: tuple[Configuration, ...]
    """By workers."""
    batch: int
    """Of a worker, or of all together."""
    over_all: bool
    sizes: tuple[Size, ...] = ()
    label: str = ""

    @property
    def strategy(self) -> str:
        return self.runs[-1].strategy


def find_series(runs: Runs, configurations: Sequence[Configuration]) -> list[Series]:
    found = [
        replace(series, sizes=_sizes(runs, series)) for series in _without_sizes(configurations)
    ]
    found = [series for series in found if len(series.sizes) > 1]
    labels = _labels(found)
    return [replace(series, label=label) for series, label in zip(found, labels, strict=True)]


def _without_sizes(configurations: Sequence[Configuration]) -> Iterator[Series]:
    keys = [key for key in SAME if key not in ("workers", "batch_size")]
    known = [run for run in configurations if not pd.isna(run.row["batch_size"])]
    singles = [run for run in known if run.strategy == "single"]
    others = [run for run in known if run.strategy != "single"]
    for group in grouped(others, lambda run: run.values(keys)).values():
        same = group[0].values(TRAINING)
        alone = {_batch(run): run for run in singles if run.values(TRAINING) == same}
        by_batch = list(_per_worker(group, alone))
        taken = {run.numbers for series in by_batch for run in series.runs}
        rest = [run for run in group if run.numbers not in taken]
        yield from by_batch
        yield from _over_all(rest, alone)


def _per_worker(group: list[Configuration], alone: dict[int, Configuration]) -> Iterator[Series]:
    """Series with one batch size per worker."""
    for batch in sorted({_batch(run) for run in group}):
        same = [run for run in group if _batch(run) == batch]
        members = _with_base(same, alone.get(batch))
        if len(members) > 1:
            yield Series(tuple(members), batch, over_all=False)


def _over_all(rest: list[Configuration], alone: dict[int, Configuration]) -> Iterator[Series]:
    """Series with one batch for all workers together."""
    while rest:
        whole = max(_batch(run) * run.workers for run in rest)
        least = whole * (1 - ROUNDED)
        same = [run for run in rest if _batch(run) * run.workers >= least]
        rest = [run for run in rest if run not in same]
        base = next((alone[size] for size in alone if least <= size <= whole), None)
        members = _with_base(same, base)
        if len({run.workers for run in members}) == len(members) > 1:
            yield Series(tuple(members), whole, over_all=True)


def _batch(run: Configuration) -> int:
    return int(run.row["batch_size"])


def _with_base(members: list[Configuration], base: Configuration | None) -> list[Configuration]:
    """In order of workers; the base where they have no run of one worker."""
    ordered = sorted(members, key=lambda run: run.workers)
    if base is not None and ordered[0].workers > 1:
        ordered.insert(0, base)
    return ordered


def _sizes(runs: Runs, series: Series) -> tuple[Size, ...]:
    times = [
        (run.workers, step, epoch, samples_per_epoch(run.row) / epoch)
        for run in series.runs
        if (step := run.mean("step_median_s")) and (epoch := _epoch_s(runs, run))
    ]
    if not times:
        return ()
    least, first_step, _, first_rate = times[0]
    return tuple(
        Size(
            workers=workers,
            step_s=step,
            epoch_s=epoch,
            samples_per_s=rate,
            step_efficiency=None if series.over_all else first_step / step,
            speed_up=rate / first_rate,
            efficiency=rate / first_rate * least / workers,
        )
        for workers, step, epoch, rate in times
    )


def _epoch_s(runs: Runs, run: Configuration) -> float | None:
    epochs = run.rows(runs.epochs)
    later = mean_of(epochs[epochs["epoch"] > 1]["seconds"])
    if later is not None:
        return later
    train = run.mean("train_s")
    count = 1 if pd.isna(run.row["epochs"]) else int(run.row["epochs"])
    return train / count if train else None


def _labels(found: Sequence[Series]) -> list[str]:
    """What tells series apart; the batch where nothing else does, or where it is one for all."""
    tasks = grouped(range(len(found)), lambda place: found[place].runs[-1].task)
    labels = [""] * len(found)
    for task, places in tasks.items():
        last = [found[place].runs[-1] for place in places]
        plain = [replace(run, runs=run.runs.assign(batch_size=None)) for run in last]
        short = [run.label for run in named(plain, with_workers=False)]
        for place, label in zip(places, short, strict=True):
            parts = [label]
            if found[place].over_all or short.count(label) > 1:
                where = "over all workers" if found[place].over_all else "a worker"
                parts.append(f"{found[place].batch:,} samples {where}")
            labels[place] = ", ".join([*parts, task] if len(tasks) > 1 else parts)
    return labels


def section(report: Report) -> Section | None:
    found = find_series(report.runs, report.configurations)
    if not found:
        return None
    rows: list[Row] = [
        {
            "configuration": series.label,
            "strategy": series.strategy,
            "contended": bool(computing_differs(series.runs)),
            **vars(size),
        }
        for series in found
        for size in series.sizes
    ]
    strong = _chart(
        "speed-up",
        "Strong scaling: speed-up in samples per second",
        "speed-up over the fewest workers",
        found,
        lambda size: size.speed_up,
    )
    weak = [series for series in found if series.sizes[-1].step_efficiency is not None]
    charts = [strong]
    if weak:
        charts.append(
            _chart(
                "weak-scaling",
                "Weak scaling: efficiency of a step",
                "step with the fewest workers / step",
                weak,
                lambda size: size.step_efficiency,
            )
        )
    why = next(filter(None, (computing_differs(series.runs) for series in found)), "")
    charts = [replace(chart, contended=why) for chart in charts]
    tables = {"scaling": pd.DataFrame(rows).drop(columns="contended")}
    return Section("scaling", "Scaling", [*charts, Table(rows, COLUMNS)], NOTE, tables)


def _chart(
    name: str, title: str, what: str, found: Sequence[Series], value: Callable[[Size], float | None]
) -> Chart:
    most = max(size.workers for series in found for size in series.sizes)
    fewest = sorted({series.sizes[0].workers for series in found})
    traces = [
        figures.reference_line(
            [least, most],
            [1, most / least if name == "speed-up" else 1],
            "ideal" if len(fewest) == 1 else f"ideal from {least}",
        )
        for least in fewest
    ]
    looks = figures.line_looks(found)
    for series in found:
        known = [size for size in series.sizes if value(size) is not None]
        traces.append(
            {
                "x": [size.workers for size in known],
                "y": figures.rounded(value(size) for size in known),
                "mode": "lines+markers",
                **looks[series.label],
                "hovertemplate": figures.hover("<b>{}</b><br>%{x} workers: %{y:.3g}", series.label),
            }
        )
    x, y = figures.whole_axis("workers", most), figures.axis(what, rangemode="tozero")
    return Chart(traces, 380, x, y, name=name, title=title)
