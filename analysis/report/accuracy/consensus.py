"""Consensus distance: how far workers' models are from their average, by epoch."""

import pandas as pd

from analysis.report import figures
from analysis.report.context import Report
from analysis.report.page import Chart, Section, Trace

EXACT = 1e-6
"""Below this, workers' models are equal up to rounding."""
NOTE = (
    "Consensus distance: root mean square over workers of the distance between their parameters and"
    " the average, relative to the average's norm, before models are averaged for scoring."
    " Strategies that average gradients stay at rounding error and are not shown; those that"
    " average parameters within groups drift apart and converge again. Means over seeds."
)


def section(report: Report) -> Section | None:
    curves = report.runs.curves.dropna(subset=["consensus_distance"])
    series = {}
    for configuration in report.configurations:
        points = configuration.rows(curves).groupby("epoch")["consensus_distance"].mean()
        if len(points) and points.max() > EXACT:
            series[configuration.label] = points
    if not series:
        return None
    shown = [config for config in report.configurations if config.label in series]
    looks = figures.line_looks(shown)
    traces: list[Trace] = [
        {
            "x": [int(epoch) for epoch in series[config.label].index],
            "y": figures.rounded(float(value) for value in series[config.label]),
            "mode": "lines+markers",
            **looks[config.label],
            "hovertemplate": figures.hover("<b>{}</b><br>epoch %{x}: %{y:.3g}", config.label),
        }
        for config in shown
    ]
    last = max(int(points.index.max()) for points in series.values())
    chart = Chart(
        traces,
        340 + figures.legend_height(len(shown)),
        figures.whole_axis("epoch", last),
        figures.axis("consensus distance", rangemode="tozero"),
        {"showlegend": True},
        name="consensus-distance",
        title="Consensus distance by epoch",
    )
    rows = [
        {"configuration": label, "epoch": int(str(epoch)), "consensus_distance": float(value)}
        for label, points in series.items()
        for epoch, value in points.items()
    ]
    tables = {"consensus": pd.DataFrame(rows)}
    return Section("consensus", "Consensus distance", [chart], NOTE, tables)
