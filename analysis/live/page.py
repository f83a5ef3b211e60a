"""The live page of a session: its plan -> HTML with figures that have lines, but no points yet.

assets/live.js polls what cluster/live/session_view.py gives and fills in points and texts. Lines
are in the order of the plan; their names, colours and axes are made here, escaped, once.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.report.figures import (
    PALETTE,
    axis,
    hover,
    legend_height,
    line_looks,
    present,
)
from analysis.report.page import Chart, Choice, Fragment, Headline, Layout, Section, Trace, render
from analysis.tables.columns import OPTIONS, RENAMED
from analysis.tables.labels import differing, labels
from cluster.spec.documents.session_plan import SessionFolder, SessionPlan

AXES: Mapping[str, Layout] = {
    "step": axis("training step", rangemode="tozero"),
    "seconds": axis("time in training (s)", rangemode="tozero"),
    "bytes": axis("sent in training, all nodes ({})", rangemode="tozero"),
}
"""What points can be drawn against, in the order of their numbers in state.json.

Where a title has braces, live.js puts the unit of the largest number there.
"""
HEADINGS = {
    "epoch": "epoch",
    "accuracy": "accuracy",
    "loss": "test loss",
    "sent": "sent in training, all nodes",
    "seconds": "time in training",
}
"""Of the table of runs, by the key in state.json."""
NODES = 10
"""Lines of the traffic figure; cluster/live/traffic.py has no more."""
CURVES_NOTE = (
    "A point per epoch: the average of all workers' models, scored on test samples. Thin lines:"
    " loss on training batches, mean over workers and some steps. Bytes include packet headers."
)
TRAFFIC_NOTE = "What each node's interface sent, headers included; of the run that was begun last."


@dataclass(frozen=True)
class PlannedLine:
    """A run of the plan, as figures name it."""

    run: str
    label: str
    strategy: str


def planned_lines(plan: SessionPlan) -> list[PlannedLine]:
    table = pd.DataFrame(
        [{"run": planned.run, **planned.spec} for planned in plan.runs], dtype=object
    ).rename(columns=RENAMED)
    table = table.reindex(columns=list(dict.fromkeys([*table.columns, *OPTIONS])))
    rows = [row for _, row in table.iterrows()]
    names = labels(rows, differing(table), with_workers=table["workers"].nunique() > 1)
    return [
        PlannedLine(planned.run, name, str(planned.spec["strategy"]))
        for planned, name in zip(plan.runs, names, strict=True)
    ]


def live_page(session: SessionFolder) -> str:
    plan = session.read_plan()
    lines = planned_lines(plan)
    status = Fragment("live_status.html", {"lines": lines, "folder": str(session.path)})
    runs = Fragment("live_runs.html", {"lines": lines, "headings": HEADINGS})
    sections = [
        Section("progress", "Progress", [status]),
        Section("curves", "Learning curves", [_accuracy(lines), _loss(lines)], CURVES_NOTE),
        Section("traffic", "Traffic", [_traffic()], TRAFFIC_NOTE),
        Section("runs", "Runs", [runs]),
    ]
    return render(
        _headline(session, plan), sections, present(line.strategy for line in lines), is_live=True
    )


def _headline(session: SessionFolder, plan: SessionPlan) -> Headline:
    about = f"Live view of session {session.path.name}: points appear while it runs."
    return Headline(plan.title or "Session in progress", about, shlex.join(plan.command))


def _looks(lines: Sequence[PlannedLine]) -> list[Trace]:
    """A look for each line, although two may have the same name."""
    found = line_looks(lines)
    return [dict(found[line.label]) for line in lines]


def _by_axis(traces: list[Trace], height: int, y: Layout) -> dict[str, Chart]:
    return {name: Chart(traces, height, x, y) for name, x in AXES.items()}


def _accuracy(lines: Sequence[PlannedLine]) -> Choice:
    traces = [
        look
        | {"x": [], "y": [], "mode": "lines+markers", "marker": {"size": 6}}
        | {"hovertemplate": hover("<b>{}</b><br>%{y:.2%} at %{x}", line.label)}
        for line, look in zip(lines, _looks(lines), strict=True)
    ]
    y = axis("test accuracy", tickformat=".0%")
    charts = _by_axis(traces, 340 + legend_height(len(lines)), y)
    return Choice("live-accuracy", "Accuracy", "against", charts, shared=True)


def _loss(lines: Sequence[PlannedLine]) -> Choice:
    """Of each run the loss on training batches, then on test samples."""
    traces: list[Trace] = []
    for line, look in zip(lines, _looks(lines), strict=True):
        tip = "<b>{}</b><br>{} loss %{y:.4g} at %{x}"
        train = {"mode": "lines", "opacity": 0.45, "showlegend": False}
        test = {"mode": "lines+markers", "marker": {"size": 6}}
        thin = {
            "line": {**look["line"], "width": 1},
            "hovertemplate": hover(tip, line.label, "training"),
        }
        points: Trace = {"x": [], "y": []}
        traces.append(look | points | train | thin)
        traces.append(look | points | test | {"hovertemplate": hover(tip, line.label, "test")})
    y = axis("loss", rangemode="tozero")
    charts = _by_axis(traces, 340 + legend_height(len(lines)), y)
    return Choice("live-loss", "Loss", "against", charts, shared=True)


def _traffic() -> Chart:
    traces: list[Trace] = [
        {
            "x": [],
            "y": [],
            "mode": "lines",
            "line": {"width": 1.5, "color": PALETTE[place]},
            "hovertemplate": hover("%{fullData.name}: %{y:.3r} at %{x:.0f} s"),
        }
        for place in range(NODES)
    ]
    time = axis("time since the run began (s)", rangemode="tozero")
    return Chart(
        traces,
        320,
        time,
        axis("sent ({})", rangemode="tozero"),
        {"showlegend": True},
        "live-traffic",
        "Send rate of each node",
    )
