"""What more workers bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import DASHES, axis, colour, rounded, whole_axis
from analysis.report.page import Chart, Column, Section, Traces, chart_html, table_html
from analysis.report.time.scaling_numbers import Series, Size, find_series
from cluster.observe.units import seconds_text

COLUMNS = [
    Column("configuration", "configuration", left=True),
    Column("workers", "workers"),
    Column("step", "step_s", seconds_text),
    Column("weak efficiency, by step", "step_efficiency", "{:.0%}".format),
    Column("epoch", "epoch_s", seconds_text),
    Column("speed-up, by epoch", "speed_up", "{:.2f}".format),
    Column("strong efficiency, by epoch", "efficiency", "{:.0%}".format),
]
NOTE = (
    "Runs that differ only in workers, with one batch size per worker or one batch for all of them together; a single run"
    " of the same training and batch stands for one worker. Weak scaling: with one batch size per worker a step should take"
    " as long with more workers. Strong scaling: all workers share one training set, so an epoch should take N0/N of the time of"
    " the fewest workers, N0 (the first epoch, which warms up, is left out where there are others). The nodes of an emulated cluster share the machine's cores: with real computing, the"
    " loss is mostly theirs; with a synthetic model only the network is real."
)


def section(report: Report) -> Section | None:
    found = find_series(report.runs, report.configurations)
    if not found:
        return None
    rows = [
        {"configuration": one.label, "strategy": one.strategy, **vars(size)}
        for one in found
        for size in one.sizes
    ]
    weak = [one for one in found if one.sizes[-1].step_efficiency is not None]
    parts = [
        chart_html(
            _chart(
                "speed-up",
                "Strong scaling: speed-up of an epoch",
                "speed-up over the fewest workers",
                found,
                lambda s: s.speed_up,
            )
        )
    ]
    if weak:
        title = "Weak scaling: what a step keeps of its speed"
        parts.append(
            chart_html(
                _chart(
                    "weak-scaling",
                    title,
                    "step with the fewest workers / step",
                    weak,
                    lambda s: s.step_efficiency,
                )
            )
        )
    parts.append(table_html(rows, COLUMNS))
    tables = {"scaling": pd.DataFrame(rows)}
    return Section("scaling", "Scaling", "\n".join(parts), NOTE, tables=tables)


def _chart(
    name: str, title: str, what: str, found: Sequence[Series], value: Callable[[Size], float | None]
) -> Chart:
    most = max(size.workers for one in found for size in one.sizes)
    fewest = sorted({one.sizes[0].workers for one in found})  # 1 is what they had
    traces: Traces = [
        {
            "x": [least, most],
            "y": [1, most / least if name == "speed-up" else 1],
            "mode": "lines",
            "name": "ideal" if len(fewest) == 1 else f"ideal from {least}",
            "line": {"color": "rgba(125,132,140,.6)", "dash": "dot"},
            "hoverinfo": "skip",
        }
        for least in fewest
    ]
    seen: dict[str, int] = {}
    for one in found:
        place = seen[one.strategy] = seen.get(one.strategy, -1) + 1
        known = [size for size in one.sizes if value(size) is not None]
        traces.append(
            {
                "x": [size.workers for size in known],
                "y": rounded(value(size) for size in known),
                "mode": "lines+markers",
                "name": escape(one.label),
                "legendgroup": one.strategy,
                "line": {"color": colour(one.strategy), "dash": DASHES[place % 6]},
                "hovertemplate": f"<b>{escape(one.label)}</b><br>%{{x}} workers: %{{y:.3g}}<extra></extra>",
            }
        )
    layout = {
        "height": 380,
        "xaxis": whole_axis("workers", most),
        "yaxis": axis(what, rangemode="tozero"),
    }
    return Chart(name, title, traces, layout)
