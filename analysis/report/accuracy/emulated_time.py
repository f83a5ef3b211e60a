"""Accuracy against emulated time at three rates, simulated; what codecs cost, and where they pay.

Only where algorithms that send less are compared with an all-reduce of the same task. All
configurations of a task have the same time of computing: what differs is what they send and encode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.predict import fitted
from analysis.predict.coding import coding_s
from analysis.predict.forecast import Cluster
from analysis.predict.need import RATES_BIT, Need
from analysis.predict.observations import cluster_of, has_simulation
from analysis.report import figures
from analysis.report.accuracy import curves
from analysis.report.context import Report
from analysis.report.page import Block, Chart, Choice, Column, Heading, Row, Section, Table, Trace
from analysis.tables.checks import read_checked
from analysis.tables.configurations import Configuration
from analysis.tables.score import ACCURACY, score_of
from cluster.observe.units import bits_rate, bytes_text, seconds_text
from cluster.spec.exchange.codecs import FLOAT_BYTES, parse_codec
from cluster.spec.experiment import Experiment

RATES_MBIT = (10, 100, 1000)
BASELINE = "allreduce"
APART = 3
"""Trainings whose durations differ by more than this factor share a logarithmic axis."""
COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("score", "score"),
    Column("payload, per worker", "sent_bytes", bytes_text),
    Column("encoding and decoding, a round", "coding_s", seconds_text),
    *(
        Column(f"training at {rate} Mbit/s (simulated)", f"at_{rate}_s", seconds_text)
        for rate in RATES_MBIT
    ),
    Column("faster than all-reduce below", "pays"),
]
NOTE = (
    "Simulated (docs/prediction.md): equal links without bursts, a core for each node, no"
    " evaluation. Every configuration of a task computes {computing} a step, the least median that"
    " was measured in these runs; codecs take what they took on one idle core. Nothing in it is a"
    " measured duration. A codec or local steps pay below the rate in the last column: there a step"
    " is shorter by more than 5 %. Streaming and strategies without a barrier are not simulated."
)


@dataclass(frozen=True)
class _Timed:
    """A configuration, and its step on any link."""

    configuration: Configuration
    need: Need
    points: list[curves.Point]

    @property
    def is_baseline(self) -> bool:
        asked = self.need.cluster
        plain = (asked.strategy, asked.compress, asked.local_steps)
        return plain == (BASELINE, "none", 1) and self.configuration.row["outer"] == "none"

    @property
    def steps_per_epoch(self) -> float:
        row = self.configuration.row
        return float(row["steps"]) / float(row["epochs"])

    def train_s(self, rate_mbit: float, epochs: float) -> float:
        return self.need.step_s(rate_mbit * 1e6) * self.steps_per_epoch * epochs


def section(report: Report) -> Section | None:
    body: list[Block] = []
    rows: list[Row] = []
    computing: list[float] = []
    for place, (task, configurations) in enumerate(report.tasks.items()):
        timed = _timed(report, configurations)
        baseline = next((one for one in timed if one.is_baseline), None)
        if baseline is None or not any(_sends_less(one) for one in timed):
            continue
        own = [_row(one, baseline) for one in timed]
        rows += [{"task": task, **row} for row in own]
        computing.append(baseline.need.cluster.compute_s)
        if len(report.tasks) > 1:
            body.append(Heading(task))
        name = figures.numbered("accuracy-against-time", place)
        title = f"{score_of(timed[0].configuration.row).name.capitalize()} against emulated time"
        charts = {f"{rate} Mbit/s": _chart(timed, rate) for rate in RATES_MBIT}
        body.append(Choice(name, f"{title} (simulated)", "link of every node", charts, shared=True))
        body.append(Table(own, COLUMNS, name=f"emulated-time-{place + 1}"))
    if not rows:
        return None
    texts = " or ".join(dict.fromkeys(map(seconds_text, computing)))
    tables = {"emulated_time": pd.DataFrame(rows)}
    title = "Accuracy against emulated time, and where it pays to send less"
    return Section("emulated-time", title, body, NOTE.format(computing=texts), tables)


def _sends_less(one: _Timed) -> bool:
    return parse_codec(one.need.cluster.compress).lossy


def _timed(report: Report, configurations: Sequence[Configuration]) -> list[_Timed]:
    """Those whose step can be simulated, all with the least time of computing."""
    costs = fitted.load().costs
    found = []
    for configuration in configurations:
        points = curves.curve(report.runs, configuration)
        try:
            summary = read_checked(report.runs.folders[configuration.numbers[0]])
            experiment = Experiment.from_json(summary.spec)
            if points and has_simulation(experiment):
                steps = experiment.steps_per_epoch / experiment.rounds_per_epoch
                need = Need(cluster_of(summary, experiment, None), costs, steps)
                found.append(_Timed(configuration, need, points))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    medians = [one.configuration.median("compute_median_s") for one in found]
    least = min((median for median in medians if median), default=None)
    if least is None:
        return []
    return [
        replace(one, need=replace(one.need, cluster=_ideal(one.need.cluster, least)))
        for one in found
    ]


def _ideal(cluster: Cluster, compute_s: float) -> Cluster:
    """With equal nodes that have a core each."""
    return replace(
        cluster,
        compute_s=compute_s,
        burst_bytes=(),
        cores=None,
        rounds=None,
        stragglers=(),
        slow=(),
    )


def _row(one: _Timed, baseline: _Timed) -> Row:
    configuration, asked = one.configuration, one.need.cluster
    score, last = score_of(configuration.row), one.points[-1]
    numbers = asked.model_bytes // FLOAT_BYTES
    return {
        "configuration": configuration.label,
        "strategy": configuration.strategy,
        "score": score.text(last.score),
        "sent_bytes": last.payload_bytes / configuration.workers,
        "coding_s": coding_s(asked.strategy, asked.compress, asked.workers, numbers) or None,
        **{f"at_{rate}_s": one.train_s(rate, last.epoch) for rate in RATES_MBIT},
        "pays": None if one.is_baseline else _pays(one.need.pays_below_bit(baseline.need)),
    }


def _pays(rate_bit: float | None) -> str:
    if rate_bit is None:
        return "no rate"
    return "any rate" if rate_bit >= RATES_BIT[-1] else bits_rate(rate_bit / 8)


def _chart(timed: Sequence[_Timed], rate_mbit: int) -> Chart:
    looks = figures.line_looks([one.configuration for one in timed])
    score = score_of(timed[0].configuration.row)
    x = _time_scale([[one.train_s(rate_mbit, p.epoch) for p in one.points] for one in timed])
    values = [point.score for one in timed for point in one.points]
    is_accuracy = score is ACCURACY
    y = figures.share_scale(score.name, values) if is_accuracy else _plain(score.name)
    traces: list[Trace] = [
        looks[one.configuration.label]
        | {
            "x": x(one.train_s(rate_mbit, point.epoch) for point in one.points),
            "y": y(point.score for point in one.points),
            "mode": "lines+markers",
            "customdata": [f"epoch {p.epoch}: {score.text(p.score)}" for p in one.points],
            "hovertemplate": figures.hover(
                "<b>{}</b><br>%{customdata}<br>simulated", one.configuration.label
            ),
        }
        for one in timed
    ]
    return Chart(traces, 430 + figures.legend_height(len(timed)), x.axis, y.axis)


def _time_scale(by_configuration: Sequence[Sequence[float]]) -> figures.Scale:
    """Logarithmic where one curve would be a short line at the left beside another."""
    title = "training, emulated time (simulated)"
    seconds = [value for values in by_configuration for value in values]
    ends = [values[-1] for values in by_configuration]
    if max(ends) > APART * min(ends):
        return figures.Scale(figures.log_seconds_axis(title, seconds))
    return figures.seconds_scale(title, seconds)


def _plain(name: str) -> figures.Scale:
    return figures.Scale(figures.axis(name))
