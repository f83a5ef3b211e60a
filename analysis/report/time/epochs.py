"""Time of an epoch: data, computing, exposed communication; the first epoch, a warm-up, apart."""

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import GREY, hover, seconds_scale, whole_axis
from analysis.report.page import Block, Chart, Choice, Column, Details, Row, Section, Table, Trace
from analysis.tables.configurations import Configuration
from cluster.observe.units import percents, seconds_text

PARTS = {
    "data_s": ("data", GREY),
    "compute_s": ("computing", "#2f7ed8"),
    "exposed_communication_s": ("exposed communication", "#d9730d"),
}
UNSPLIT = ("whole epoch, not split", "#1f9d6b")
"""Of a strategy that overlaps communication with computing."""
COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("first epoch", "first_s", seconds_text),
    Column("later epochs, mean", "seconds", seconds_text),
    Column("data", "data_s", seconds_text),
    Column("computing", "compute_s", seconds_text),
    Column("exposed communication", "exposed_communication_s", seconds_text),
    Column("share of communication", "share", percents(0), from_times=True),
    Column("per step: data", "data_step_s", seconds_text),
    Column("per step: computing", "compute_step_s", seconds_text),
    Column("per step: exposed communication", "exposed_communication_step_s", seconds_text),
]
NOTE = (
    "Training time of a worker without evaluation, mean over workers and seeds. The first epoch"
    " warms up caches and connections and is excluded from all numbers but its own. Per step: the"
    " epoch divided by its steps, a mean; the section above shows medians."
)


def section(report: Report) -> Section | None:
    """Where some runs have at least two epochs."""
    timed = [config for config in report.configurations if not config.is_virtual]
    shown = {config.label: (config, _epochs(report, config)) for config in timed}
    shown = {label: pair for label, pair in shown.items() if len(pair[1]) > 1}
    if not shown:
        return None
    rows = [
        _row(config, epochs) | {"contended": report.is_contended(config)}
        for config, epochs in shown.values()
    ]
    title = "Parts of each epoch's time; the first is a warm-up (light)"
    charts = {label: _chart(epochs) for label, (_, epochs) in shown.items()}
    body: list[Block] = [
        Choice(
            "epoch-split",
            title,
            "run",
            charts,
            contended=report.why_contended(c for c, _ in shown.values()),
        ),
        Details("Numbers", [Table(rows, COLUMNS)]),
    ]
    every = [
        epochs.reset_index().assign(configuration=label) for label, (_, epochs) in shown.items()
    ]
    table = pd.concat(every, ignore_index=True)[["configuration", *every[0].columns[:-1]]]
    return Section("epochs", "Time of an epoch", body, NOTE, {"epochs": table})


def _epochs(report: Report, configuration: Configuration) -> pd.DataFrame:
    """By epoch, the mean of its seeds."""
    mine = configuration.rows(report.runs.epochs)
    return mine.drop(columns="number").groupby("epoch").mean()


def _row(configuration: Configuration, epochs: pd.DataFrame) -> Row:
    later = epochs.iloc[1:].mean()
    steps = float(configuration.row["steps"]) / float(configuration.row["epochs"])
    parts = {name: None if pd.isna(later[name]) else float(later[name]) for name in PARTS}
    exposed, seconds = parts["exposed_communication_s"], float(later["seconds"])
    return {
        "configuration": configuration.label,
        "strategy": configuration.strategy,
        "first_s": float(epochs.iloc[0]["seconds"]),
        "seconds": seconds,
        **parts,
        "share": exposed / seconds if exposed is not None and seconds else None,
        **{
            name.replace("_s", "_step_s"): None if value is None else value / steps
            for name, value in parts.items()
        },
    }


def _chart(epochs: pd.DataFrame) -> Chart:
    known = epochs.dropna(axis="columns", how="all")
    parts = {name: look for name, look in PARTS.items() if name in known}
    if "exposed_communication_s" not in parts:
        parts = {"seconds": UNSPLIT}
    numbers = [int(epoch) for epoch in epochs.index]
    y = seconds_scale("training time of a worker", epochs["seconds"].dropna())
    times = epochs.astype(object).where(epochs.notna(), None)
    traces: list[Trace] = [
        {
            "type": "bar",
            "x": numbers,
            "y": y(times[name]),
            "customdata": ["" if value is None else seconds_text(value) for value in times[name]],
            "name": part,
            "marker": {"color": colour, "opacity": [0.45] + [1.0] * (len(numbers) - 1)},
            "hovertemplate": hover("epoch %{x}, {}: %{customdata}", part),
        }
        for name, (part, colour) in parts.items()
    ]
    more = {"barmode": "stack", "showlegend": True}
    return Chart(traces, 340, whole_axis("epoch", len(numbers)), y.axis, more)
