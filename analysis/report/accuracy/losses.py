"""Losses and accuracies that lab sheets ask for: by worker, of the first steps, by epoch."""

from collections.abc import Sequence

import pandas as pd

from analysis.report import figures
from analysis.report.accuracy import curves
from analysis.report.accuracy.learning_points import POINTS, first_seed, points
from analysis.report.context import Report
from analysis.report.page import (
    Block,
    Chart,
    Choice,
    Column,
    Details,
    Heading,
    Row,
    Table,
    Trace,
)
from analysis.tables.configurations import Configuration
from analysis.tables.score import ACCURACY, BITS, Score, score_of
from analysis.tables.steps import FIRST_STEPS

MOST_EPOCHS = 12
"""In a table with a column for each."""
CONFIGURATION = Column("configuration", "configuration", style="left")


def learning(report: Report) -> list[Configuration]:
    """Configurations that learn from data; synthetic models do not."""
    return [c for c in report.configurations if str(c.row["dataset"]) != "none"]


def by_worker(report: Report) -> list[Block]:
    """A figure of the first seed of each configuration."""
    steps = {config.label: first_seed(report.runs, config) for config in learning(report)}
    charts = {label: _worker_chart(known) for label, known in steps.items() if len(known)}
    if not charts:
        return []
    caption = f"First seed of each configuration; at most {POINTS} points per worker."
    title = "Training loss of each worker"
    return [Choice("loss-by-worker", title, "configuration", charts, caption)]


def _worker_chart(steps: pd.DataFrame) -> Chart:
    steps = steps.assign(point=points(steps))
    traces: list[Trace] = []
    for place, (rank, own) in enumerate(steps.groupby("rank", sort=True)):
        line = own.groupby("point").agg(step=("step", "max"), loss=("loss", "mean"))
        name = f"worker {_whole(rank)}"
        traces.append(
            {
                "x": figures.rounded(line["step"]),
                "y": figures.rounded(line["loss"]),
                "mode": "lines",
                "name": name,
                "line": {"width": 1.5, "color": figures.PALETTE[place % len(figures.PALETTE)]},
                "hovertemplate": figures.hover("{}, step %{x}: %{y:.4~g}", name),
            }
        )
    axes = figures.axis("step"), figures.axis("training loss")
    return Chart(traces, 340, *axes, {"showlegend": True})


def of_first_steps(report: Report) -> list[Block]:
    """Mean over workers, and each worker's folded: first seed of each configuration."""
    means: list[Row] = []
    workers: list[Row] = []
    for config in learning(report):
        steps = first_seed(report.runs, config)
        steps = steps[steps["step"] <= FIRST_STEPS]
        table = steps.pivot_table(index="rank", columns="step", values="loss")
        if table.empty:
            continue
        means.append(_named(config) | _by_step(table.mean()))
        workers += [
            _named(config) | {"worker": _whole(rank)} | _by_step(row)
            for rank, row in table.iterrows()
        ]
    if not means:
        return []
    numbers = range(1, FIRST_STEPS + 1)
    columns = [Column(f"step {n}", f"step_{n}", "{:.3f}".format) for n in numbers]
    own = Table(workers, [CONFIGURATION, Column("worker", "worker"), *columns])
    return [
        Heading(f"Training loss of the first {FIRST_STEPS} steps"),
        Table(means, [CONFIGURATION, *columns]),
        Details("Of each worker", [own]),
    ]


def by_epoch(report: Report) -> list[Block]:
    """Test scores, mean over seeds; none where there are many epochs."""
    blocks: list[Block] = []
    for score in (ACCURACY, BITS):
        judged = [config for config in learning(report) if score_of(config.row) is score]
        blocks += _by_epoch(report, judged, score)
    return blocks


def _by_epoch(report: Report, judged: Sequence[Configuration], score: Score) -> list[Block]:
    found = {config: curves.curve(report.runs, config) for config in judged}
    most = max((point.epoch for scores in found.values() for point in scores), default=0)
    if not 0 < most <= MOST_EPOCHS:
        return []
    rows = [
        _named(config) | {f"epoch_{point.epoch}": point.score for point in scores}
        for config, scores in found.items()
        if scores
    ]
    columns = [Column(f"epoch {n}", f"epoch_{n}", score.text) for n in range(1, most + 1)]
    title = f"Test {score.name} after each epoch"
    return [Heading(title), Table(rows, [CONFIGURATION, *columns])]


def _named(config: Configuration) -> Row:
    return {"configuration": config.label, "strategy": config.strategy}


def _by_step(losses: "pd.Series[float]") -> Row:
    return {f"step_{_whole(step)}": float(loss) for step, loss in losses.items()}


def _whole(value: object) -> int:
    return int(float(str(value)))
