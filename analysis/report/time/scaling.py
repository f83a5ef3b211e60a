"""Scaling: runs that differ only in the number of workers.

    weak      efficiency(N) = step(N0) / step(N)
    strong    speed-up(N) = rate(N) / rate(N0), efficiency(N) = speed-up(N) x N0/N

N0 is the fewest workers in a series, the rate is in samples per second of all workers together:
incomplete batches are dropped, so epochs of unequal N hold unequal numbers of samples. NOTE says
what is equal in a series. With one batch for all workers together (--global-batch-size) a step is
strong scaling, too.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.report import figures
from analysis.report.context import Report, computing_differs
from analysis.report.page import Chart, Column, Row, Section, Table
from analysis.tables.configurations import (
    SAME,
    Configuration,
    grouped,
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
    step_s_sd: float | None
    """The standard deviation over seeds, as of the others below; None with one seed."""
    epoch_s_sd: float | None
    samples_per_s_sd: float | None
    step_efficiency_sd: float | None
    speed_up_sd: float | None
    efficiency_sd: float | None


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


@dataclass(frozen=True)
class _Times:
    """What is measured of one configuration: a value per seed."""

    workers: int
    step_s: list[float]
    epoch_s: list[float]
    samples: float
    """In an epoch, of all workers."""

    @property
    def rate(self) -> float:
        return self.samples / statistics.mean(self.epoch_s)


def _sizes(runs: Runs, series: Series) -> tuple[Size, ...]:
    measured = [_times(runs, run) for run in series.runs]
    times = [found for found in measured if found.step_s and found.epoch_s]
    return tuple(_size(found, times[0], series.over_all) for found in times)


def _size(found: _Times, first: _Times, over_all: bool) -> Size:
    """The spread of a ratio is that of both sizes; the first one's ratio to itself has none."""
    step_s, speed_up = statistics.mean(found.step_s), found.rate / first.rate
    efficiency = speed_up * first.workers / found.workers
    step_efficiency = None if over_all else statistics.mean(first.step_s) / step_s
    is_first = found is first
    step_spread = None if is_first else _joint_spread(found.step_s, first.step_s)
    rate_spread = None if is_first else _joint_spread(found.epoch_s, first.epoch_s)
    return Size(
        workers=found.workers,
        step_s=step_s,
        epoch_s=statistics.mean(found.epoch_s),
        samples_per_s=found.rate,
        step_efficiency=step_efficiency,
        speed_up=speed_up,
        efficiency=efficiency,
        step_s_sd=_times_spread(step_s, _spread(found.step_s)),
        epoch_s_sd=_times_spread(statistics.mean(found.epoch_s), _spread(found.epoch_s)),
        samples_per_s_sd=_times_spread(found.rate, _spread(found.epoch_s)),
        step_efficiency_sd=_times_spread(step_efficiency, step_spread),
        speed_up_sd=_times_spread(speed_up, rate_spread),
        efficiency_sd=_times_spread(efficiency, rate_spread),
    )


def _spread(values: Sequence[float]) -> float | None:
    """Standard deviation over the mean; None with one seed."""
    return statistics.stdev(values) / statistics.mean(values) if len(values) > 1 else None


def _joint_spread(values: Sequence[float], base: Sequence[float]) -> float | None:
    """Of the ratio of two means of independent runs, to first order; None unless both have one."""
    spread, of_base = _spread(values), _spread(base)
    return None if spread is None or of_base is None else math.hypot(spread, of_base)


def _times_spread(value: float | None, spread: float | None) -> float | None:
    return None if value is None or spread is None else value * spread


def _times(runs: Runs, run: Configuration) -> _Times:
    steps = [float(step) for step in run.runs["step_median_s"].dropna() if step]
    return _Times(run.workers, steps, _epochs_s(runs, run), samples_per_epoch(run.row))


def _epochs_s(runs: Runs, run: Configuration) -> list[float]:
    """Mean seconds of an epoch, by seed, without the first epoch where there are others."""
    epochs = run.rows(runs.epochs)
    later = epochs[epochs["epoch"] > 1].groupby("number")["seconds"].mean().dropna()
    if len(later):
        return [float(seconds) for seconds in later if seconds]
    count = 1 if pd.isna(run.row["epochs"]) else int(run.row["epochs"])
    return [float(train) / count for train in run.runs["train_s"].dropna() if train]


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


def why_contended(report: Report, series: Series) -> str:
    """Why a series allows no conclusion; empty where it does.

    Computing is equal in all sizes where the batch of a worker is. Where one batch is shared by all
    workers, more of them compute less each: only runs of the same size can be compared.
    """
    return report.why_contended(series.runs) or (
        "" if series.over_all else computing_differs(series.runs)
    )


def section(report: Report) -> Section | None:
    found = find_series(report.runs, report.configurations)
    if not found:
        return None
    rows: list[Row] = [
        {
            "configuration": series.label,
            "strategy": series.strategy,
            "contended": bool(why_contended(report, series)),
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
        "speed_up",
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
                "step_efficiency",
            )
        )
    why = next(filter(None, (why_contended(report, series) for series in found)), "")
    charts = [replace(chart, contended=why) for chart in charts]
    tables = {"scaling": pd.DataFrame(rows).drop(columns="contended")}
    return Section("scaling", "Scaling", [*charts, Table(rows, COLUMNS)], NOTE, tables)


def _chart(name: str, title: str, what: str, found: Sequence[Series], key: str) -> Chart:
    """`key`: which number of a Size."""
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
        known = [vars(size) for size in series.sizes if getattr(size, key) is not None]
        traces.append(
            {
                "x": [size["workers"] for size in known],
                "y": figures.rounded(size[key] for size in known),
                "error_y": figures.error_bars([size[f"{key}_sd"] for size in known]),
                "mode": "lines+markers",
                **looks[series.label],
                "hovertemplate": figures.hover("<b>{}</b><br>%{x} workers: %{y:.3g}", series.label),
            }
        )
    x, y = figures.whole_axis("workers", most), figures.axis(what, rangemode="tozero")
    caption = "Error bars: standard deviation over seeds, of this size and of the fewest workers."
    has_seeds = any(getattr(size, f"{key}_sd") for series in found for size in series.sizes)
    return Chart(traces, 380, x, y, name=name, title=title, caption=caption if has_seeds else "")
