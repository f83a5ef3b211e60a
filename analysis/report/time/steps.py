"""Where the time of a step goes: computing, and communication that nothing hides."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import axis, colour, faint, names_axis, rounded
from analysis.report.page import Chart, Column, Section, Traces, chart_html, details, table_html
from analysis.tables.configurations import mean
from cluster.observe.units import seconds_text

COLUMNS = [
    Column("configuration", "configuration", left=True),
    Column("step", "step_median_s", seconds_text),
    Column("computing", "compute_median_s", seconds_text),
    Column("exposed communication", "exposed_communication_median_s", seconds_text),
    Column("communication's share", "share", "{:.0%}".format),
    Column("bound", "communication_bound_s", seconds_text),
]
NOTE = (
    "Medians over all workers' steps but the first, means of seeds; where steps come in turns (pairwise, local steps), of"
    " their means over a turn. Exposed communication is what a step waits for:"
    " moving bytes, and waiting for others to arrive. What overlaps with computing is not in it; ddp cannot tell the"
    " two apart, so its whole step is one bar. The palest part is what the medians of both leave of the median step:"
    " medians do not add up, and reading data is in neither; where both together are more, a bar is as much too long."
    " A tick marks the bound: computing, and the busiest link's bytes,"
    " headers included, over its rate; small messages may beat it by what a link lets through at once."
    " On an emulated cluster all nodes share the machine's cores."
)
UNKNOWN = "step, not told apart"
REST = "rest (medians do not add up)"
PARTS = {
    "compute_median_s": "computing",
    "exposed_communication_median_s": "exposed communication",
    "rest_s": REST,
}


def section(report: Report) -> Section | None:
    names = tuple(column.key for column in COLUMNS if column.key.endswith("_s"))
    rows = []
    for one in report.configurations:
        row: dict[str, Any] = {
            "configuration": one.label,
            "short": one.label.removesuffix(f", {one.row['model']}"),
            "strategy": one.strategy,
            "model": str(one.row["model"]),
        }
        row |= {name: mean(report.runs, one, name) for name in names}
        exposed, step = row["exposed_communication_median_s"], row["step_median_s"]
        row["share"] = exposed / step if step and exposed is not None else None
        row["rest_s"] = rest(step, row["compute_median_s"], exposed)
        if step is not None:
            rows.append(row)
    if not rows:
        return None
    models = dict.fromkeys(row["model"] for row in rows)
    charts = [
        chart_html(_chart(place, model, [row for row in rows if row["model"] == model]))
        for place, model in enumerate(models)
    ]
    body = "\n".join([*charts, details("The numbers", table_html(rows, COLUMNS))])
    return Section(
        "steps",
        "Where a step's time goes",
        body,
        NOTE,
        tables={"steps": pd.DataFrame(rows).drop(columns="short")},
    )


def rest(step: float | None, compute: float | None, exposed: float | None) -> float | None:
    """What makes a bar as long as the median step; None where its parts are not known."""
    if step is None or compute is None:
        return None
    return max(0.0, round(step - compute - (exposed or 0.0), 6))


def _chart(place: int, model: str, rows: list[dict[str, Any]]) -> Chart:
    rows = rows[::-1]  # the first stands on top
    traces: Traces = []
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        members = [row for row in rows if row["strategy"] == strategy]
        for key, words in (*PARTS.items(), ("step_median_s", UNKNOWN)):
            known = [
                row
                for row in members
                if row[key] is not None
                and (words != REST or row[key] > 0)
                and (words == UNKNOWN) == (row["compute_median_s"] is None)
            ]
            if known:
                traces.append(_bar(strategy, key, words, known))
    bounds = [row for row in rows if row["communication_bound_s"]]
    if bounds:
        traces.append(
            {
                "x": rounded(
                    row["communication_bound_s"] + (row["compute_median_s"] or 0) for row in bounds
                ),
                "y": [escape(row["short"]) for row in bounds],
                "mode": "markers",
                "name": "computing and the bound",
                "marker": {
                    "symbol": "line-ns",
                    "size": 16,
                    "line": {"width": 2, "color": "#7d848c"},
                },
                "hovertemplate": "%{y}: not below %{x:.3s}s<extra></extra>",
            }
        )
    name = "step-split" + (f"-{place + 1}" if place else "")
    layout = {
        "height": 120 + 24 * len(rows),
        "barmode": "stack",
        "bargap": 0.3,
        "xaxis": axis("median step", tickformat="~s", ticksuffix="s"),
        "yaxis": names_axis([row["short"] for row in rows]),
        "showlegend": False,
    }
    return Chart(
        name,
        f"What a step of {model} is made of: computing (full colour), exposed communication (light), rest (pale)",
        traces,
        layout,
    )


def _bar(strategy: str, key: str, words: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    shares = {"exposed communication": 0.45, REST: 0.15}
    fill = faint(strategy, shares[words]) if words in shares else colour(strategy)
    pattern = {"shape": "/", "size": 6} if words == UNKNOWN else {}
    return {
        "type": "bar",
        "orientation": "h",
        "x": rounded(row[key] for row in rows),
        "y": [escape(row["short"]) for row in rows],
        "name": words,
        "legendgroup": strategy,
        "marker": {"color": fill, "pattern": pattern},
        "hovertemplate": f"%{{y}}<br>{words}: %{{x:.3s}}s<extra></extra>",
    }
