"""Time of a step: computing, and exposed communication."""

from dataclasses import replace

import pandas as pd

from analysis.report import figures
from analysis.report.context import Report
from analysis.report.page import Block, Chart, Column, Details, Row, Section, Table, Trace
from analysis.tables.configurations import Configuration
from cluster.observe.units import percents, seconds_text

COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("step", "step_median_s", seconds_text),
    Column("computing", "compute_median_s", seconds_text),
    Column("exposed communication", "exposed_communication_median_s", seconds_text),
    Column("share of communication", "share", percents(0), from_times=True),
    Column("communication bound", "communication_bound_s", seconds_text),
]
NOTE = (
    "Medians over all workers' steps without the first, means over seeds; where only some steps"
    " communicate (pairwise, local steps), medians of the mean over one cycle. Exposed"
    " communication delays the step: transfers, and waiting for other workers. It excludes what"
    " overlaps with computing; ddp cannot separate the two, so its step is one bar. The palest part"
    " is the rest of the median step: medians do not add up, and loading data is in neither part;"
    " where both parts exceed the median step, the bar is too long by the difference. A tick marks"
    " the lower bound: computing, plus the busiest link's bytes with headers over its rate; small"
    " messages may beat it by a link's burst. The nodes of an emulated cluster share the machine's"
    " cores."
)
UNSPLIT = "whole step, not split"
REST = "rest (medians do not add up)"
PARTS = {
    "compute_median_s": "computing",
    "exposed_communication_median_s": "exposed communication",
    "rest_s": REST,
}
SPREAD = "Error bars: standard deviation of the median step over seeds."
FAINT = {"exposed communication": 0.45, REST: 0.15}
"""Of the strategy's colour."""


def section(report: Report) -> Section | None:
    names = tuple(column.key for column in COLUMNS if column.key.endswith("_s"))
    rows: list[Row] = []
    for configuration in report.configurations:
        model = _model(configuration)
        row: Row = {
            "configuration": configuration.label,
            "short": configuration.label.removesuffix(f", {model}"),
            "strategy": configuration.strategy,
            "model": model,
        }
        row |= configuration.means(names)
        row["contended"] = report.is_contended(configuration)
        exposed, step = row["exposed_communication_median_s"], row["step_median_s"]
        row["share"] = exposed / step if step and exposed is not None else None
        row["rest_s"] = rest(step, row["compute_median_s"], exposed)
        if step is not None:
            rows.append(row)
    if not rows:
        return None
    body: list[Block] = [
        replace(
            _chart(place, model, [row for row in rows if row["model"] == model]),
            contended=report.why_contended(
                config for config in report.configurations if _model(config) == model
            ),
        )
        for place, model in enumerate(dict.fromkeys(row["model"] for row in rows))
    ]
    body.append(Details("Numbers", [Table(rows, COLUMNS)]))
    tables = {"step_times": pd.DataFrame(rows).drop(columns=["short", "contended"])}
    return Section("steps", "Time of a step", body, NOTE, tables)


def rest(step: float | None, compute: float | None, exposed: float | None) -> float | None:
    """What makes a bar as long as the median step; None where its parts are not known."""
    if step is None or compute is None:
        return None
    return max(0.0, round(step - compute - (exposed or 0.0), 6))


def _bound(row: Row) -> float:
    return float(row["communication_bound_s"]) + float(row["compute_median_s"] or 0)


def _model(configuration: Configuration) -> str:
    """A program of the user's own has a model that only it knows."""
    name = configuration.row["model"]
    return "a program" if pd.isna(name) else str(name)


def _chart(place: int, model: str, rows: list[Row]) -> Chart:
    rows = rows[::-1]  # the first is drawn on top
    bounds = [row for row in rows if row["communication_bound_s"]]
    x = figures.seconds_scale("median step", [row["step_median_s"] for row in rows])
    traces = _bars(rows, x) + _spreads(rows, x)
    if bounds:
        traces.append(
            {
                "x": x(_bound(row) for row in bounds),
                "y": [row["short"] for row in bounds],
                "customdata": [seconds_text(_bound(row)) for row in bounds],
                "mode": "markers",
                "name": "computing and communication bound",
                "marker": {
                    "symbol": "line-ns",
                    "size": 16,
                    "line": {"width": 2, "color": figures.GREY},
                },
                "hovertemplate": figures.hover("%{y}: lower bound %{customdata}"),
            }
        )
    parts = "computing (full colour), exposed communication (light), rest (pale)"
    title = f"Parts of a step of {model}: {parts}"
    name, order = figures.numbered("step-split", place), [row["short"] for row in rows]
    chart = figures.chart_of_bars(name, title, traces, order, x, barmode="stack")
    has_seeds = any(row["step_median_s_sd"] is not None for row in rows)
    return replace(chart, caption=SPREAD if has_seeds else "")


def _spreads(rows: list[Row], x: figures.Scale) -> list[Trace]:
    """Error bars at the ends of the bars; none with one seed."""
    known = [row for row in rows if row["step_median_s_sd"] is not None]
    return [
        {
            "x": x(row["step_median_s"] for row in members),
            "y": [row["short"] for row in members],
            "error_x": figures.error_bars(x(row["step_median_s_sd"] for row in members)),
            "mode": "markers",
            "name": "standard deviation",
            "legendgroup": strategy,
            "marker": {"size": 1, "color": figures.GREY},
            "showlegend": False,
            "hoverinfo": "skip",
        }
        for strategy, members in figures.by_strategy(known).items()
    ]


def _bars(rows: list[Row], x: figures.Scale) -> list[Trace]:
    traces = []
    for strategy, members in figures.by_strategy(rows).items():
        for key, part in (*PARTS.items(), ("step_median_s", UNSPLIT)):
            known = [
                row
                for row in members
                if row[key] is not None
                and (part != REST or row[key] > 0)
                and (part == UNSPLIT) == (row["compute_median_s"] is None)
            ]
            if known:
                traces.append(_bar(strategy, key, part, known, x))
    return traces


def _bar(strategy: str, key: str, part: str, rows: list[Row], x: figures.Scale) -> Trace:
    fill = figures.faint(strategy, FAINT[part]) if part in FAINT else figures.colour(strategy)
    return {
        "type": "bar",
        "orientation": "h",
        "x": x(row[key] for row in rows),
        "y": [row["short"] for row in rows],
        "customdata": [seconds_text(row[key]) for row in rows],
        "name": part,
        "legendgroup": strategy,
        "marker": {"color": fill, "pattern": {"shape": "/", "size": 6} if part == UNSPLIT else {}},
        "hovertemplate": figures.hover("%{y}<br>{}: %{customdata}", part),
    }
