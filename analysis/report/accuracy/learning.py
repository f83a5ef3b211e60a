"""Learning curves: loss and accuracy in training and on the test set, against four axes."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from analysis.report import figures
from analysis.report.accuracy import losses
from analysis.report.accuracy.learning_points import (
    AXES,
    POINTS,
    Curve,
    find_curves,
    find_faults,
)
from analysis.report.context import Report
from analysis.report.figures import FAULT
from analysis.report.page import Block, Chart, Choice, Heading, Section, Trace
from analysis.tables.configurations import Configuration
from analysis.tables.steps import MOST_STEPS

NOTE = (
    "Training loss and accuracy are those of the batches as they are trained, mean over workers;"
    f" at most {POINTS} points per line, each the mean of the steps since the one before. Test"
    " scores are those of the average of all workers' models after an epoch. Seconds are those of"
    " training, without evaluation; bytes are payload of all nodes, in training equal for every"
    f" step. tables/steps.csv has every worker's steps, evenly thinned out above {MOST_STEPS}."
)
CAPTION = (
    "Pale line: training. Points: test set, after each epoch. Mean over seeds; band: their range."
)
OF_FAULTS = " Red crosses, against seconds: faults of nodes (first seed)."
TITLES = {
    "loss": "Loss in training and on the test set",
    "accuracy": "Accuracy in training and on the test set",
}
CSV_COLUMNS = ["session", "run", "worker", "epoch", "step", "loss", "correct", "seconds"]


def section(report: Report) -> Section | None:
    if report.runs.steps.empty:
        return None
    body: list[Block] = []
    tasks = _tasks(report)
    for place, (task, configurations) in enumerate(tasks.items()):
        if len(tasks) > 1:
            body.append(Heading(task))
        for measure in TITLES:
            drawn = find_curves(report.runs, configurations, measure)
            if drawn:
                name = figures.numbered(f"{measure}-curves", place)
                body.append(_choice(report, name, measure, drawn))
    body += losses.by_worker(report) + losses.of_first_steps(report) + losses.by_epoch(report)
    if not body:
        return None
    return Section("learning", "Learning curves", body, NOTE, {"steps": _table(report)})


def _table(report: Report) -> pd.DataFrame:
    steps = report.runs.named(report.runs.steps).rename(columns={"rank": "worker"})
    whole = dict.fromkeys(("worker", "epoch", "step", "correct"), "Int64")
    return steps[CSV_COLUMNS].astype(whole)


def _tasks(report: Report) -> dict[str, list[Configuration]]:
    """Configurations with steps, by what they learn; labels as short as their task allows."""
    short = {config.numbers: config for members in report.tasks.values() for config in members}
    numbers = set(report.runs.steps["number"].unique())
    found: dict[str, list[Configuration]] = {}
    for config in losses.learning(report):
        if numbers & set(config.numbers):
            found.setdefault(config.task, []).append(short.get(config.numbers, config))
    return found


def _choice(report: Report, name: str, measure: str, drawn: Sequence[Curve]) -> Choice:
    known = {axis: [curve for curve in drawn if curve.knows(axis)] for axis in AXES}
    faults = {curve.config.label: find_faults(report.runs, curve.config) for curve in drawn}
    charts = {
        axis: _chart(measure, axis, found, faults if axis == "seconds" else {})
        for axis, found in known.items()
        if found
    }
    caption = CAPTION + (OF_FAULTS if any(len(found) for found in faults.values()) else "")
    return Choice(name, TITLES[measure], "against", charts, caption, shared=True)


def _x_scale(axis: str, drawn: Sequence[Curve]) -> figures.Scale:
    values = [float(v) for curve in drawn for part in (curve.train, curve.test) for v in part[axis]]
    if axis == "seconds":
        return figures.seconds_scale("training time", values)
    if axis == "bytes":
        return figures.bytes_scale("payload sent, all nodes", values, may_be_log=False)
    return figures.Scale(figures.axis(axis))


def _chart(
    measure: str, axis: str, drawn: Sequence[Curve], faults: Mapping[str, pd.DataFrame]
) -> Chart:
    x = _x_scale(axis, drawn)
    is_loss = measure == "loss"
    y = figures.Scale(figures.axis("loss")) if is_loss else figures.percent_scale("accuracy")
    looks = figures.line_looks([curve.config for curve in drawn])
    traces = [
        trace for curve in drawn for trace in _traces(curve, looks[curve.config.label], axis, x, y)
    ]
    for curve in drawn:
        traces += _crosses(curve, faults.get(curve.config.label, pd.DataFrame()), x, y)
    height = 360 + figures.legend_height(len(drawn))
    return Chart(traces, height, x.axis, y.axis, {"showlegend": True})


def _crosses(curve: Curve, faults: pd.DataFrame, x: figures.Scale, y: figures.Scale) -> list[Trace]:
    """On its line, where faults began."""
    points = curve.train if len(curve.train) else curve.test
    if faults.empty or points.empty:
        return []
    values = np.interp(faults["seconds"], points["seconds"], points["mean"])
    return [
        {
            "x": x(faults["seconds"]),
            "y": y(values),
            "mode": "markers",
            "marker": {"symbol": "x", "size": 8, "color": f"rgb({FAULT})"},
            "showlegend": False,
            "customdata": list(faults["fault"]),
            "hovertemplate": figures.hover("<b>{}</b><br>%{customdata}", curve.config.label),
        }
    ]


def _traces(
    curve: Curve, look: Trace, axis: str, x: figures.Scale, y: figures.Scale
) -> list[Trace]:
    """Bands, then lines; only the first line is in the legend."""
    config = curve.config
    bands: list[Trace] = []
    lines: list[Trace] = []
    for what, points in (("training", curve.train), ("test", curve.test)):
        if points.empty:
            continue
        place = x(points[axis])
        if len(config.numbers) > 1:
            low, high = y(points["low"]), y(points["high"])
            bands.append(figures.band(look, config.strategy, place, low, high))
        text = f"<b>{{}}</b><br>{what}, {axis} %{{x:.4~g}}: %{{y:.4~g}}"
        line = look | {
            "x": place,
            "y": y(points["mean"]),
            "mode": "lines" if what == "training" else "lines+markers",
            "opacity": 0.6 if what == "training" else 1,
            "hovertemplate": figures.hover(text, config.label),
        }
        lines.append(line | ({"showlegend": False} if lines else {}))
    return bands + lines
