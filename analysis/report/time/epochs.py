"""Where an epoch's time goes: data, computing, exposed communication; the first epoch apart, for it warms up."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import axis, rounded, whole_axis
from analysis.report.page import Chart, Column, Section, Traces, choice_html, details, table_html
from analysis.tables.configurations import Configuration
from cluster.observe.units import seconds_text

PARTS = {
    "data_s": ("data", "#7d848c"),
    "compute_s": ("computing", "#2f7ed8"),
    "exposed_communication_s": ("exposed communication", "#d9730d"),
}
WHOLE = ("step, not told apart", "#1f9d6b")
"""Of one that hides communication behind computing."""
COLUMNS = [
    Column("configuration", "configuration", left=True),
    Column("first epoch", "first_s", seconds_text),
    Column("an epoch after it", "seconds", seconds_text),
    Column("of it data", "data_s", seconds_text),
    Column("computing", "compute_s", seconds_text),
    Column("exposed communication", "exposed_communication_s", seconds_text),
    Column("communication's share", "share", "{:.0%}".format),
    Column("a step: data", "data_step_s", seconds_text),
    Column("computing ", "compute_step_s", seconds_text),
    Column("exposed communication ", "exposed_communication_step_s", seconds_text),
]
NOTE = (
    "Seconds of training of a worker, mean over workers and seeds, evaluation left out. The first epoch warms up caches"
    " and connections, and is left out of every number but its own. A step is an epoch over its steps, a mean, where the"
    " section above has medians."
)


def section(report: Report) -> Section | None:
    """Where some runs have an epoch beside the one that warms up."""
    shown = {one.label: (one, _epochs(report, one)) for one in report.configurations}
    shown = {label: pair for label, pair in shown.items() if len(pair[1]) > 1}
    if not shown:
        return None
    rows = [_row(one, epochs) for one, epochs in shown.values()]
    title = "What each epoch's time is made of; the first warms up (light)"
    charts = {label: _chart(epochs) for label, (_, epochs) in shown.items()}
    body = choice_html("epoch-split", title, "run", charts) + details(
        "The numbers", table_html(rows, COLUMNS)
    )
    every = [
        epochs.reset_index().assign(configuration=label) for label, (_, epochs) in shown.items()
    ]
    tables = {
        "epochs": pd.concat(every, ignore_index=True)[["configuration", *every[0].columns[:-1]]]
    }
    return Section("epochs", "Where an epoch's time goes", body, NOTE, tables=tables)


def _epochs(report: Report, one: Configuration) -> pd.DataFrame:
    """By epoch, the mean of its seeds."""
    found = report.runs.epochs[report.runs.epochs["number"].isin(one.numbers)]
    return found.drop(columns="number").groupby("epoch").mean()


def _row(one: Configuration, epochs: pd.DataFrame) -> dict[str, Any]:
    after = epochs.iloc[1:].mean()
    steps = float(one.row["steps"]) / float(one.row["epochs"])
    parts = {name: None if pd.isna(after[name]) else float(after[name]) for name in PARTS}
    exposed = parts["exposed_communication_s"]
    return {
        "configuration": one.label,
        "strategy": one.strategy,
        "first_s": float(epochs.iloc[0]["seconds"]),
        "seconds": float(after["seconds"]),
        **parts,
        "share": exposed / float(after["seconds"])
        if exposed is not None and after["seconds"]
        else None,
        **{
            name.replace("_s", "_step_s"): None if value is None else value / steps
            for name, value in parts.items()
        },
    }


def _chart(epochs: pd.DataFrame) -> Chart:
    known = epochs.dropna(axis="columns", how="all")
    parts = {name: look for name, look in PARTS.items() if name in known}
    if "exposed_communication_s" not in parts:
        parts = {"seconds": WHOLE}
    numbers = [int(epoch) for epoch in epochs.index]
    traces: Traces = [
        {
            "type": "bar",
            "x": numbers,
            "y": rounded(None if pd.isna(v) else float(v) for v in epochs[name]),
            "name": words,
            "marker": {"color": colour, "opacity": [0.45] + [1.0] * (len(numbers) - 1)},
            "hovertemplate": f"epoch %{{x}}, {words}: %{{y:.3s}}s<extra></extra>",
        }
        for name, (words, colour) in parts.items()
    ]
    layout = {
        "height": 340,
        "barmode": "stack",
        "xaxis": whole_axis("epoch", len(numbers)),
        "yaxis": axis("training of a worker", tickformat="~s", ticksuffix="s"),
        "showlegend": True,
    }
    return Chart("", "", traces, layout)
