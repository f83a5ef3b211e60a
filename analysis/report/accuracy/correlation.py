"""Traffic and accuracy of all configurations, and how they go together."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import pandas as pd

from analysis.report.accuracy.correlation_numbers import FEWEST, Coefficient, correlate, varies
from analysis.report.context import Report
from analysis.report.figures import bytes_axis, colour, rounded, share_axis
from analysis.report.page import Chart, Column, Section, Traces, chart_html, table_html
from analysis.tables.configurations import Configuration, mean

NOTE = (
    "A point is a configuration at its end, the mean of its seeds. Pearson asks for a straight line, Spearman only"
    " for the same order. Brackets are 95 % intervals (Fisher's). Bytes differ between strategies and with the"
    " number of epochs and workers: within a strategy it is mostly those that make accuracy go with bytes, and"
    " neither is a cause."
)
COLUMNS = [
    Column("among", "among", left=True),
    Column("configurations", "n"),
    Column("Pearson", "pearson_text", word=True),
    Column("Spearman", "spearman_text", word=True),
    Column("in words", "sentence", left=True),
]
Points = list[tuple[Configuration, float, float]]


def section(report: Report) -> Section | None:
    parts, tables = [], []
    for place, (task, configurations) in enumerate(report.tasks.items()):
        points = _points(report, configurations)
        if len(points) < 2:
            continue
        if len(report.tasks) > 1:
            parts.append(f"<h3>{escape(task)}</h3>")
        rows = _rows(task, points)
        if varies([sent for _, sent, _ in points]) and len({got for *_, got in points}) > 1:
            parts.append(chart_html(_chart(place, points)))
        parts.append(table_html(_together(rows), COLUMNS))
        tables += rows
    if not parts:
        return None
    frame = pd.DataFrame(tables).drop(columns=["pearson_text", "spearman_text"])
    title = "Does more traffic go with more accuracy?"
    return Section("correlation", title, "\n".join(parts), NOTE, tables={"correlation": frame})


def _points(report: Report, configurations: Sequence[Configuration]) -> Points:
    """One that sends nothing has no place on the scale."""
    found = []
    for one in configurations:
        sent = mean(report.runs, one, "train_sent_bytes")
        accuracy = mean(report.runs, one, "accuracy")
        if sent and accuracy is not None:
            found.append((one, sent, accuracy))
    return found


def _rows(task: str, points: Points) -> list[dict[str, Any]]:
    among: dict[str, Points] = {"all strategies": points}
    for strategy in dict.fromkeys(one.strategy for one, *_ in points):
        among[f"{strategy} only"] = [point for point in points if point[0].strategy == strategy]
    rows = []
    for name, members in among.items():
        found = correlate([sent for _, sent, _ in members], [got for *_, got in members])
        row: dict[str, Any] = {"task": task, "among": name, "n": found.n}
        for kind, one in (("pearson", found.pearson), ("spearman", found.spearman)):
            row |= {f"{kind}_text": _text(one)}
            for end in ("value", "low", "high"):
                row[f"{kind}_{end}"] = None if one is None else round(getattr(one, end), 4)
        rows.append(row | {"sentence": found.sentence})
    return rows


def _together(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Strategies with too few configurations share a line."""
    few = [row for row in rows[1:] if row["n"] < FEWEST]
    if len(few) < 2:
        return rows
    names, most = (
        ", ".join(row["among"].removesuffix(" only") for row in few),
        max(row["n"] for row in few),
    )
    each = "1 configuration" if most == 1 else f"at most {most} configurations"
    text = (
        f"{each[0].upper()}{each[1:]} each: too few to say anything (at least {FEWEST} are needed)."
    )
    line = {"among": f"each by itself: {names}", "n": most, "sentence": text}
    return [*(row for row in rows if row not in few), line]


def _text(one: Coefficient | None) -> str | None:
    return None if one is None else f"{one.value:+.2f} [{one.low:+.2f}, {one.high:+.2f}]"


def _chart(place: int, points: Points) -> Chart:
    traces: Traces = []
    for strategy in dict.fromkeys(one.strategy for one, *_ in points):
        members = [point for point in points if point[0].strategy == strategy]
        traces.append(
            {
                "x": rounded(sent for _, sent, _ in members),
                "y": rounded(accuracy for *_, accuracy in members),
                "text": [escape(one.label) for one, *_ in members],
                "mode": "markers",
                "name": strategy,
                "legendgroup": strategy,
                "marker": {"color": colour(strategy), "size": 11},
                "hovertemplate": "<b>%{text}</b><br>%{y:.2%} for %{x:.4s}B<extra></extra>",
            }
        )
    layout = {
        "height": 400,
        "xaxis": bytes_axis("sent in training, all nodes", [sent for _, sent, _ in points]),
        "yaxis": share_axis("accuracy at the end", [accuracy for *_, accuracy in points]),
    }
    name = "traffic-and-accuracy" + (f"-{place + 1}" if place else "")
    return Chart(name, "Traffic and accuracy of each configuration", traces, layout)
