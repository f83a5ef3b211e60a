"""Accuracy against bytes: curves with seeds as bands, the frontier, and the cost of a target.

Language models are judged by bits per byte instead (analysis/tables/score.py).
"""

from collections.abc import Sequence
from math import isnan

import pandas as pd

from analysis.report import figures
from analysis.report.accuracy import curves
from analysis.report.context import Report
from analysis.report.page import Block, Chart, Column, Heading, Row, Section, Table, Trace, texts
from analysis.tables.configurations import Configuration
from analysis.tables.labels import scored_on
from analysis.tables.score import ACCURACY, Score, score_of
from cluster.observe.units import bytes_text, percents, seconds_text

NOTE = (
    "One point per epoch, scored on {curve_samples} test samples; a diamond is the end of a run,"
    " scored {scored_on}. A band spans the least and the most accurate of several seeds. Bytes:"
    " payload of all nodes together, without packet headers, whose number varies with the grouping"
    " of messages in packets; with the one averaging over all workers that pairwise, and workers"
    " that average a share of their parameters, do not do in training. The grey line is the"
    " Pareto frontier: no other configuration has both fewer bytes and more accuracy."
)
SENT = "payload sent in training, all nodes"


def section(report: Report) -> Section | None:
    body: list[Block] = []
    costs: list[Row] = []
    for place, (task, configurations) in enumerate(report.tasks.items()):
        drawn = [(config, curves.curve(report.runs, config)) for config in configurations]
        drawn = [(config, points) for config, points in drawn if points]
        if not drawn:
            continue
        if len(report.tasks) > 1:
            body.append(Heading(task))
        counted = [
            (config, points) for config, points in drawn if not isnan(points[-1].payload_bytes)
        ]
        if counted:
            body.append(_chart(figures.numbered("accuracy-against-bytes", place), counted))
        members = [config for config, _ in drawn]
        target = report.target_of(members)
        if target is not None:
            blocks, rows = _costs(report, task, members, target)
            body += blocks
            costs += rows
    if not body:
        return None
    points = report.runs.named(report.runs.curves)
    tables = {"target": pd.DataFrame(costs).drop(columns="share", errors="ignore")}
    samples = curves.samples_text(report.runs)
    note = NOTE.format(scored_on=scored_on(report.runs.table), curve_samples=samples)
    return Section("accuracy", "Accuracy against bytes", body, note, tables | {"curves": points})


Drawn = Sequence[tuple[Configuration, list[curves.Point]]]


def _chart(name: str, drawn: Drawn) -> Chart:
    looks = figures.line_looks([config for config, _ in drawn])
    sent = [
        point.payload_bytes for _, points in drawn for point in points if point.payload_bytes > 0
    ]
    x = figures.bytes_scale(_sent([config for config, _ in drawn]), sent)
    score = score_of(drawn[0][0].row)
    if score is ACCURACY:
        values = [point.score for _, points in drawn for point in points]
        y = figures.share_scale(score.name, values)
    else:
        y = figures.Scale(figures.axis(score.name))
    traces = _frontier(drawn, x, y, score)
    for config, points in drawn:
        if len(config.numbers) > 1:
            low, high = y(p.low for p in points), y(p.high for p in points)
            sent_x = x(p.payload_bytes for p in points)
            traces.append(figures.band(looks[config.label], config.strategy, sent_x, low, high))
        traces.append(looks[config.label] | _line(config, points, sent, x, y))
    height = 430 + figures.legend_height(len(drawn))
    title = f"{score.name.capitalize()} against bytes sent in training"
    return Chart(traces, height, x.axis, y.axis, name=name, title=title)


def _sent(configurations: Sequence[Configuration]) -> str:
    """What bytes are, and whether nobody counted them."""
    virtual = {config.is_virtual for config in configurations}
    if virtual == {True}:
        return f"{SENT} (predicted)"
    return f"{SENT} (of virtual workers predicted)" if True in virtual else SENT


def _frontier(drawn: Drawn, x: figures.Scale, y: figures.Scale, score: Score) -> list[Trace]:
    """Empty where one configuration beats all others."""
    ends = [(points[-1].payload_bytes, points[-1].score) for _, points in drawn]
    ends = [end for end in ends if end[0] > 0]
    best = [ends[place] for place in curves.frontier(ends, score.higher_is_better)]
    if len(best) < 2:
        return []
    return [
        {
            "x": x(sent for sent, _ in best),
            "y": y(value for _, value in best),
            "name": "Pareto frontier",
            "mode": "lines",
            "line": {"color": "rgba(125,132,140,.45)", "width": 7, "shape": "hv"},
            "hoverinfo": "skip",
        }
    ]


def _line(
    configuration: Configuration,
    points: list[curves.Point],
    sent: list[float],
    x: figures.Scale,
    y: figures.Scale,
) -> Trace:
    """A configuration that sent nothing is a level line at its final score."""
    text = score_of(configuration.row).text
    silent = points[-1].payload_bytes == 0 and bool(sent)
    if silent:
        points = [points[-1]] * 2
    tips = [
        f"epoch {p.epoch}: {text(p.score)}"
        + (", nothing sent" if silent else f" after {bytes_text(p.payload_bytes, 4)}")
        for p in points
    ]
    seeds = len(configuration.numbers)
    more = f"<br>mean of {seeds} runs" if seeds > 1 else ""
    others = len(points) - 1
    dots = (
        {"line": {"color": figures.colour(configuration.strategy), "dash": "dot"}} if silent else {}
    )
    return dots | {
        "x": x([min(sent), max(sent)] if silent else [p.payload_bytes for p in points]),
        "y": y(p.score for p in points),
        "mode": "lines" if silent else "lines+markers",
        "marker": {"size": [6] * others + [10], "symbol": ["circle"] * others + ["diamond"]},
        "customdata": tips,
        "hovertemplate": figures.hover("<b>{}</b><br>%{customdata}" + more, configuration.label),
    }


COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("payload sent, all nodes", "payload_bytes", bytes_text),
    Column("of the maximum", "share", percents(0)),
    Column("training", "seconds", seconds_text),
    Column("epochs", "epochs", "{:.3g}".format),
    Column("runs that reached it", "seeds", style="word"),
]


def _costs(
    report: Report, task: str, configurations: Sequence[Configuration], target: float
) -> tuple[list[Block], list[Row]]:
    found = [(config, curves.reached(report.runs, config, target)) for config in configurations]
    most = max((got.payload_bytes or 0 for _, got in found), default=0)
    rows: list[Row] = [
        {
            "task": task,
            "target": target,
            "configuration": config.label,
            "strategy": config.strategy,
            "payload_bytes": got.payload_bytes,
            "payload_bytes_sd": got.payload_bytes_sd,
            "share": got.payload_bytes / most if most and got.payload_bytes is not None else None,
            "seconds": got.seconds,
            "epochs": got.epochs,
            "seeds": f"{got.seeds} of {got.of}",
        }
        for config, got in found
    ]
    rows.sort(key=lambda row: (row["payload_bytes"] is None, row["payload_bytes"] or 0))
    score = score_of(configurations[0].row)
    aim = _aim(target, score)
    body: list[Block] = [Heading(f"Cost of {aim}")]
    if report.target is None and len(found) > 1:
        there = sum(got.seeds == got.of for _, got in found)
        how_many = f"{there} of {len(found)} configurations reach it in every run"
        another = f"; use --target for another {'accuracy' if score is ACCURACY else 'number'}"
        body += texts(f"{how_many}{another}.")
    if any(got.seeds for _, got in found):
        body += [Table(rows, COLUMNS), *_bars(task, aim, rows)]
    else:
        body += texts(_nearest(report, configurations, target))
    return body, rows


def _nearest(report: Report, configurations: Sequence[Configuration], target: float) -> str:
    score = score_of(configurations[0].row)
    nearest = max if score.higher_is_better else min
    best, label = nearest(
        (nearest(point.score for point in curves.curve(report.runs, config)), config.label)
        for config in configurations
    )
    aim = curves.target_text(target, score)
    return f"No run reached {aim}. The nearest is {label}: {score.text(best)}."


def _aim(target: float, score: Score) -> str:
    """97 % accuracy; 2.1 bits per byte."""
    more = f" {score.name}" if score is ACCURACY else ""
    return curves.target_text(target, score) + more


def _bars(task: str, aim: str, rows: Sequence[Row]) -> list[Chart]:
    there = [row for row in rows if row["payload_bytes"]]
    if len(there) < 2:
        return []
    scale = figures.bytes_scale(SENT, [row["payload_bytes"] for row in there])
    name = f"bytes-to-target-{''.join(c if c.isalnum() else '-' for c in task)}"
    title = f"Bytes sent until {aim}"
    return [figures.bar_chart(name, title, there, "payload_bytes", scale, bytes_text)]
