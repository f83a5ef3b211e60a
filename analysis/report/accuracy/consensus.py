"""How far the workers' models are from each other, over time."""

from __future__ import annotations

from html import escape

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import (
    DASHES,
    axis,
    colour,
    legend,
    legend_height,
    places,
    rounded,
    whole_axis,
)
from analysis.report.page import Chart, Section, Traces, chart_html

EXACT = 1e-6
"""Below this, workers agree up to rounding."""
NOTE = (
    "Consensus distance: how far workers' parameters are from their average, root mean square over workers, relative"
    " to the average's length, before the models are averaged for scoring. Strategies that average gradients stay at"
    " rounding error and are left out; those that average parameters of a few workers at a time drift and meet again."
    " Means of seeds."
)


def section(report: Report) -> Section | None:
    curves = report.runs.curves.dropna(subset=["consensus_distance"])
    series = {}
    for one in report.configurations:
        mine = curves[curves["number"].isin(one.numbers)]
        points = mine.groupby("epoch")["consensus_distance"].mean()
        if len(points) and points.max() > EXACT:
            series[one.label] = points
    if not series:
        return None
    shown = [one for one in report.configurations if one.label in series]
    names, at = legend(shown), places(shown)
    traces: Traces = [
        {
            "x": [int(epoch) for epoch in series[one.label].index],
            "y": rounded(float(value) for value in series[one.label]),
            "mode": "lines+markers",
            "name": escape(names[one.label][0]),
            "showlegend": names[one.label][1],
            "legendgroup": one.strategy,
            "line": {"color": colour(one.strategy), "dash": DASHES[at[one.label] % 6]},
            "hovertemplate": f"<b>{escape(one.label)}</b><br>epoch %{{x}}: %{{y:.3g}}<extra></extra>",
        }
        for one in shown
    ]
    layout = {
        "height": 340 + legend_height(len(shown)),
        "xaxis": whole_axis("epoch", max(int(points.index.max()) for points in series.values())),
        "yaxis": axis("consensus distance", rangemode="tozero"),
        "showlegend": True,
    }
    title = "How far workers' models are apart"
    rows = [
        {"configuration": label, "epoch": int(str(epoch)), "consensus_distance": float(value)}
        for label, points in series.items()
        for epoch, value in points.items()
    ]
    chart = chart_html(Chart("consensus-distance", title, traces, layout))
    return Section("consensus", "Consensus", chart, NOTE, tables={"consensus": pd.DataFrame(rows)})
