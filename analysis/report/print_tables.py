"""The overview in the terminal: all runs, then the findings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from analysis.report.context import Report
from analysis.report.overview.answers import answers
from analysis.report.overview.overview import problem
from cluster.observe.units import bytes_text, percents, seconds_text

COLUMNS: list[tuple[str, str, Callable[[Any], str]]] = [
    ("accuracy", "accuracy", percents()),
    ("sent", "sent_per_step_bytes", functools.partial(bytes_text, digits=4)),
    ("predicted", "predicted_per_step_bytes", functools.partial(bytes_text, digits=4)),
    ("framing", "predicted_framing_per_step_bytes", functools.partial(bytes_text, digits=4)),
    ("ratio", "sent_over_predicted", "{:.3f}".format),
    ("per step", "step_median_s", seconds_text),
    ("counters", "counters_largest_difference", percents(3)),
]
"""Heading, column, and the format of its numbers."""


def print_tables(report: Report, console: Console) -> None:
    print_runs(report.runs.table, console)
    found = answers(report)
    if found:
        console.print()
        for text in found:
            console.print(f"* {text}", soft_wrap=True)


def print_runs(runs: pd.DataFrame, console: Console) -> None:
    """By session. In a narrow window names are folded, numbers are not."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("run", overflow="fold")
    for heading, *_ in COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    if (runs["status"] != "completed").any():
        table.add_column("status", no_wrap=True)
    for session, members in runs.groupby("session", sort=False):
        table.add_row(str(session))
        for _, run in members.iterrows():
            style = "red" if problem(run) else None
            cells = ["-" if pd.isna(run[name]) else text(run[name]) for _, name, text in COLUMNS]
            texts = ["  " + run["run"], *cells, run["status"]]
            table.add_row(*texts[: len(table.columns)], style=style)
    console.print("payload sent per worker and step, measured and predicted")
    console.print(table)
    for _, run in runs.iterrows():
        if problem(run):
            console.print(f"{run['session']}/{run['run']}: {problem(run)}", soft_wrap=True)
