"""Two numbers of a lab in words: which is less, by how much, or that noise hides it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from analysis.report.references import papers
from analysis.tables.contention import by_verdict, unequal_unknown, without_verdict
from analysis.tables.noise import (
    Measured,
    distinguishable,
    not_distinguishable,
    why_no_order,
)
from cluster.observe.units import percent_text

SAME_COMPUTING = ["model", "batch_size", "cpus", "straggler"]
"""Where these are equal a step's computing takes equally long, unless the host is contended.

Without a limit of CPU (cpus) the number of workers must be equal, too: they share the cores.
"""
Text = Callable[[float], str]


def number(runs: pd.DataFrame, column: str, label: str, **wanted: float | str) -> Measured | None:
    """Mean and range over the seeds of the runs with these options; None without any."""
    values = papers.matching(runs, dict(wanted))[column].dropna().astype(float)
    if values.empty:
        return None
    return Measured(
        strategy=label,
        label=label,
        mean=float(values.mean()),
        low=float(values.min()),
        high=float(values.max()),
        seeds=len(values),
        is_time=column.endswith("_s"),
    )


def mean_text(found: Measured, text: Text) -> str:
    """2.01 s (1.98 s to 2.04 s)."""
    if found.seeds == 1:
        return text(found.mean)
    return f"{text(found.mean)} ({text(found.low)} to {text(found.high)})"


def change(before: Measured, after: Measured, text: Text) -> str:
    """What `after` gains or costs."""
    if not distinguishable(before, after):
        return same_or_not(before, after, text)
    share = percent_text(abs(1 - after.mean / before.mean), 0)
    more = "more" if after.mean > before.mean else "less"
    return (
        f"{after.label} takes {share} {more} than {before.label} ({mean_text(after, text)} and"
        f" {mean_text(before, text)})"
    )


def same_or_not(first: Measured, second: Measured, text: Text) -> str:
    both = f"{first.label} {mean_text(first, text)}, {second.label} {mean_text(second, text)}"
    if distinguishable(first, second):
        return both
    return f"{both}: not distinguishable ({why_no_order([first, second])})"


def against(usual: Measured, others: Sequence[Measured], text: Text) -> str:
    """Every number, and which of them have no order with the usual one."""
    each = "; ".join(f"{found.label} {mean_text(found, text)}" for found in (usual, *others))
    near = not_distinguishable(usual, others)
    if not near:
        return each
    which = "all" if len(near) == len(others) else "; ".join(found.label for found in near)
    return f"{each}. Not distinguishable from {usual.label}: {which} ({why_no_order(near)})"


def unequal_times(runs: pd.DataFrame) -> str:
    """Why times have no order: a contended host; empty where they have one."""
    return next(iter(contended(runs).values()), "")


def contended(runs: pd.DataFrame) -> dict[int, str]:
    """By number of a run: why its times allow no conclusion."""
    sharing = runs["workers"].where(runs["cpus"].isna(), 0).rename("sharing")
    found = by_verdict(runs)
    for _, same in runs.groupby([*SAME_COMPUTING, sharing], dropna=False):
        if reason := unequal_unknown(same):
            found |= {int(number): reason for number in without_verdict(same).index}
    return found
