"""Accuracy against bytes: curves with seeds as bands, the frontier, and what a target costs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isnan
from typing import Any

import pandas as pd

from analysis.report.accuracy.curves import Point, curve, frontier, reached, usual_target
from analysis.report.context import Report
from analysis.report.figures import (
    DASHES,
    bars,
    bytes_axis,
    colour,
    faint,
    legend,
    legend_height,
    places,
    rounded,
    share_axis,
)
from analysis.report.page import Chart, Column, Section, Traces, chart_html, paragraphs, table_html
from analysis.tables.chance_level import is_chance_level
from analysis.tables.configurations import Configuration, mean
from analysis.tables.labels import scored_on
from cluster.observe.units import bytes_text, seconds_text

NOTE = (
    "One point per epoch, scored on a part of the test set, at most 2,000 samples; a diamond is the end of a run,"
    " scored {scored_on}. A band is"
    " the least and the most accurate of several seeds. Bytes are as the interfaces count them, headers too, all"
    " nodes together. A grey line joins the configurations that no other beats with fewer bytes and more accuracy,"
    " where there are several."
)


def section(report: Report) -> Section | None:
    parts, tables = [], []
    for place, (task, configurations) in enumerate(report.tasks.items()):
        drawn = [(one, curve(report.runs, one)) for one in configurations]
        drawn = [(one, points) for one, points in drawn if points]
        if not drawn:
            continue
        if len(report.tasks) > 1:
            parts.append(f"<h3>{escape(task)}</h3>")
        name = "accuracy-against-bytes" + (f"-{place + 1}" if place else "")
        counted = [(one, points) for one, points in drawn if not isnan(points[-1].sent_bytes)]
        if counted:
            parts.append(chart_html(_chart(name, counted)))
        if report.target is None and all(_is_chance_level(report, one) for one in configurations):
            continue  # a target that guessing reaches says nothing
        costs = _costs(report, task, [one for one, _ in drawn])
        parts.append(costs[0])
        tables.append(costs[1])
    if not parts:
        return None
    curves = report.runs.curves.merge(
        report.runs.table[["session", "run"]], left_on="number", right_index=True
    ).drop(columns="number")
    return Section(
        "accuracy",
        "Accuracy against bytes",
        "\n".join(parts),
        NOTE.format(scored_on=scored_on(report.runs.table)),
        tables={
            "target": pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(),
            "curves": curves,
        },
    )


def _is_chance_level(report: Report, one: Configuration) -> bool:
    accuracy = mean(report.runs, one, "accuracy")
    return accuracy is not None and is_chance_level(one.row, accuracy)


Drawn = Sequence[tuple[Configuration, list[Point]]]


def _chart(name: str, drawn: Drawn) -> Chart:
    configurations = [one for one, _ in drawn]
    names, at = legend(configurations), places(configurations)
    sent = [point.sent_bytes for _, points in drawn for point in points if point.sent_bytes > 0]
    traces: Traces = []
    for one, points in drawn:
        if len(one.numbers) > 1:
            traces.append(_band(one, points))
        traces.append(_line(one, points, sent, names[one.label], DASHES[at[one.label] % 6]))
    ends = [(points[-1].sent_bytes, points[-1].accuracy) for _, points in drawn]
    ends = [end for end in ends if end[0] > 0]
    best = [ends[place] for place in frontier(ends)]
    if len(best) > 1:
        traces.insert(
            0,
            {
                "x": rounded(x for x, _ in best),
                "y": rounded(y for _, y in best),
                "name": "frontier",
                "mode": "lines",
                "line": {"color": "rgba(125,132,140,.45)", "width": 7, "shape": "hv"},
                "hoverinfo": "skip",
            },
        )
    return Chart(
        name,
        "Accuracy against bytes sent in training",
        traces,
        {
            "height": 430 + legend_height(len(drawn)),
            "xaxis": bytes_axis("sent in training, all nodes", sent),
            "yaxis": share_axis(
                "accuracy", [point.accuracy for _, points in drawn for point in points]
            ),
        },
    )


def _band(one: Configuration, points: list[Point]) -> dict[str, Any]:
    """Seeds, from the lowest to the highest: forth along one, back along the other."""
    there, back = points, points[::-1]
    return {
        "x": rounded(p.sent_bytes for p in [*there, *back]),
        "y": rounded([*(p.high for p in there), *(p.low for p in back)]),
        "fill": "toself",
        "fillcolor": faint(one.strategy),
        "line": {"width": 0},
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": one.strategy,
    }


def _line(
    one: Configuration, points: list[Point], sent: list[float], name: tuple[str, bool], dash: str
) -> dict[str, Any]:
    """One that sent nothing is a level at what it reached."""
    silent = points[-1].sent_bytes == 0 and bool(sent)
    if silent:
        x, y = [min(sent), max(sent)], [points[-1].accuracy] * 2
    else:
        x, y = [p.sent_bytes for p in points], [p.accuracy for p in points]
    after = ", nothing sent" if silent else " after %{x:.4s}B"
    seeds = f"<br>mean of {len(one.numbers)} runs" if len(one.numbers) > 1 else ""
    return {
        "x": rounded(x),
        "y": rounded(y),
        "name": escape(name[0]),
        "showlegend": name[1],
        "legendgroup": one.strategy,
        "mode": "lines" if silent else "lines+markers",
        "line": {"color": colour(one.strategy), "dash": "dot" if silent else dash},
        "marker": {
            "size": [6] * (len(x) - 1) + [10],
            "symbol": ["circle"] * (len(x) - 1) + ["diamond"],
        },
        "customdata": [p.epoch for p in points][-len(x) :],
        "hovertemplate": f"<b>{escape(one.label)}</b><br>epoch %{{customdata}}: %{{y:.2%}}{after}{seeds}"
        "<extra></extra>",
    }


COLUMNS = [
    Column("configuration", "configuration", left=True),
    Column("sent, all nodes", "sent_bytes", bytes_text),
    Column("of the most", "share", "{:.0%}".format),
    Column("training", "seconds", seconds_text),
    Column("epochs", "epochs", "{:.3g}".format),
    Column("runs that got there", "seeds", word=True),
]


def _costs(
    report: Report, task: str, configurations: Sequence[Configuration]
) -> tuple[str, pd.DataFrame]:
    usual = usual_target(report.runs, configurations)
    target = report.target if report.target is not None else usual
    assert target is not None  # every one of them has a curve
    found = [(one, reached(report.runs, one, target)) for one in configurations]
    most = max((got.sent_bytes or 0 for _, got in found), default=0)
    rows = [
        {
            "task": task,
            "target": target,
            "configuration": one.label,
            "strategy": one.strategy,
            "sent_bytes": got.sent_bytes,
            "share": got.sent_bytes / most if most and got.sent_bytes is not None else None,
            "seconds": got.seconds,
            "epochs": got.epochs,
            "seeds": f"{got.seeds} of {got.of}",
        }
        for one, got in found
    ]
    rows.sort(key=lambda row: (row["sent_bytes"] is None, row["sent_bytes"] or 0))
    heading = f"<h3>What it takes to reach an accuracy of {target:.4g}</h3>"
    if report.target is None:
        there = sum(got.seeds == got.of for _, got in found)
        why = (
            f"{there} of {len(found)} configurations get there in every run; --target asks for another accuracy."
            if len(found) > 1
            else ""
        )
    else:
        why = "" if any(got.seeds for _, got in found) else _nobody(report, configurations, target)
    body = "\n".join([heading, paragraphs(why)])
    if any(got.seeds for _, got in found):
        body += table_html(rows, COLUMNS) + _bars(task, target, rows)
    return body, pd.DataFrame(rows).drop(columns="share")


def _nobody(report: Report, configurations: Sequence[Configuration], target: float) -> str:
    best, one = max(
        (max(point.accuracy for point in curve(report.runs, one)), one.label)
        for one in configurations
    )
    return f"No run reached {target:.4g}. The nearest is {one}, with {best:.4f}."


def _bars(task: str, target: float, rows: Sequence[dict[str, Any]]) -> str:
    there = [row for row in rows if row["sent_bytes"]]
    if len(there) < 2:
        return ""
    traces, names = bars(there, "sent_bytes", "%{x:.4s}B")
    layout = {
        "height": 110 + 26 * len(there),
        "xaxis": bytes_axis("sent in training, all nodes", [row["sent_bytes"] for row in there]),
        "yaxis": names,
        "showlegend": False,
        "bargap": 0.3,
    }
    name = f"bytes-to-target-{''.join(c if c.isalnum() else '-' for c in task)}"
    return chart_html(Chart(name, f"Bytes sent until accuracy {target:.4g}", traces, layout))
