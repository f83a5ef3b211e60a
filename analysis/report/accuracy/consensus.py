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
    shown, rows = [], []
    for config in report.configurations:
        points = config.rows(curves).groupby("epoch")["consensus_distance"].mean()
        if len(points) and points.max() > EXACT:
            shown.append(config)
            rows += [
                (config.label, int(str(epoch)), float(value)) for epoch, value in points.items()
            ]
    if not shown:
        return None
    looks = figures.line_looks(shown)
    traces: list[Trace] = [
        {
            "x": [epoch for label, epoch, _ in rows if label == config.label],
            "y": figures.rounded(value for label, _, value in rows if label == config.label),
            "mode": "lines+markers",
            **looks[config.label],
            "hovertemplate": figures.hover("<b>{}</b><br>epoch %{x}: %{y:.3g}", config.label),
        }
        for config in shown
    ]
    chart = Chart(
        traces,
        340 + figures.legend_height(len(shown)),
        figures.whole_axis("epoch", max(epoch for _, epoch, _ in rows)),
        figures.axis("consensus distance", rangemode="tozero"),
        {"showlegend": True},
        name="consensus-distance",
        title="Consensus distance by epoch",
    )
    table = pd.DataFrame(rows, columns=["configuration", "epoch", "consensus_distance"])
    return Section("consensus", "Consensus distance", [chart], NOTE, {"consensus": table})
