"""How fast each node sends, second by second, with the phases of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import zip_longest
from statistics import median
from typing import Any

from analysis.report.context import Report
from analysis.report.figures import axis
from analysis.report.overview.overview import labels_of
from analysis.report.page import Chart, Section, Traces, choice_html
from analysis.report.traffic.rates import BINS, Rates, read_rates

MOST_NODES = 10
"""More than these are shown as the slowest, the median and the fastest of them."""
NODE_COLOURS = (
    *("#2f7ed8", "#d9730d", "#1f9d6b", "#c2417c", "#8b6cd9", "#a08300", "#1797a6", "#d64545"),
    *("#5f8f1f", "#7d848c", "#b07aa1", "#4e79a7"),
)
NOTE = (
    f"What each interface sent, headers too, from the counters the host reads ten times a second; at most {BINS}"
    " points for a run. Shaded: training. Between are evaluation, set-up and the end."
)


def section(report: Report) -> Section | None:
    labels = labels_of(report.runs.table)
    choices = {}
    for number in report.runs.completed.index:
        rates = read_rates(report.runs.folders[number])
        if rates is not None and rates.sent_bit:
            choices[f"{number}  {labels[number]}"] = _chart(rates)
    if not choices:
        return None
    title = "How fast each node sends, over time"
    return Section(
        "over-time",
        "Traffic over time",
        choice_html("traffic-over-time", title, "run", choices),
        NOTE,
    )


def _chart(rates: Rates) -> Chart:
    traces: Traces = []
    for place, (name, values) in enumerate(_lines(rates.sent_bit).items()):
        traces.append(
            {
                "y": [_whole(value) for value in values],
                "x0": round(rates.step_s / 2, 4),
                "dx": round(rates.step_s, 5),
                "mode": "lines",
                "name": escape(name),
                "line": {"width": 1.5, "color": NODE_COLOURS[place % len(NODE_COLOURS)]},
                "hovertemplate": f"{escape(name)}: %{{y:.3s}}bit/s at %{{x:.1f}} s<extra></extra>",
            }
        )
    shapes = [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": begin,
            "x1": end,
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "fillcolor": "rgba(99,105,112,.13)",
            "layer": "below",
        }
        for phase, begin, end in rates.phases
        if phase == "train"
    ]
    layout: dict[str, Any] = {
        "height": 360,
        "xaxis": axis("seconds from the first reading"),
        "yaxis": axis("sent", tickformat="~s", ticksuffix="bit/s", rangemode="tozero"),
        "shapes": shapes,
        "showlegend": True,
    }
    return Chart("", "", traces, layout)


def _whole(value: float) -> float | int:
    """1200 is shorter than 1200.0, a hundred thousand times."""
    return int(value) if value == int(value) else value


def _lines(sent: dict[str, list[float]]) -> dict[str, list[float]]:
    ordered = dict(sorted(sent.items(), key=lambda item: (len(item[0]), item[0])))
    if len(ordered) <= MOST_NODES:
        return ordered
    bins = list(zip_longest(*ordered.values(), fillvalue=0.0))
    kinds: dict[str, Callable[[Sequence[float]], float]] = {
        "fastest node": max,
        "median node": median,
        "slowest node": min,
    }
    return {name: [float(f"{of(b):.3g}") for b in bins] for name, of in kinds.items()}
