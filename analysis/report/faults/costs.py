"""What faults cost each configuration: goodput, participation, recovery, accuracy; every fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any

import pandas as pd

from analysis.predict.faulty import goodput as predict_goodput
from analysis.predict.step_time import step_time
from analysis.report.context import Report
from analysis.report.figures import colour
from analysis.report.page import Block, Bullets, Column, Details, Row, Section, Table
from analysis.tables.columns import OPTIONS
from analysis.tables.configurations import Configuration
from cluster.observe.units import bytes_text, percent_text, percents, seconds_text
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment

OF_FAULTS = ("fault", "storm", "on_failure")
"""Options in which a run may differ from the one without faults that it is compared with."""
COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("goodput", "goodput", percents(1), from_times=True),
    Column("of its own quiet steps", "own_goodput", percents(1), from_times=True),
    Column("predicted", "predicted", percents(1)),
    Column("participation", "participation", percents(1)),
    Column("faults", "count", "{:g}".format),
    Column("noticed after", "noticed_s", seconds_text, from_times=True),
    Column("others went on after", "resumed_s", seconds_text, from_times=True),
    Column("node back after", "back_s", seconds_text, from_times=True),
    Column("samples made again", "repeated_samples", "{:g}".format),
    Column("recovery", "recovered_bytes", bytes_text),
    Column("exchanges cut short", "cut_short", "{:.1%}".format),
    Column("bytes sent / predicted", "ratio", "{:.3f}".format),
    Column("accuracy", "accuracy", percents()),
    Column("against no faults", "accuracy_change", percents(signed=True)),
]
EACH = [
    Column("run", "run", style="left"),
    Column("fault", "fault", style="word"),
    Column("node", "node", style="word"),
    Column("began", "began_s", seconds_text),
    Column("step", "step"),
    Column("noticed after", "noticed_s", seconds_text),
    Column("others went on after", "resumed_s", seconds_text),
    Column("node back after", "back_s", seconds_text),
    Column("not done", "failure", style="left"),
]
NOTE = (
    "Goodput: steps a second that count at the end, over those of the run of the same options and"
    " seed without faults; without such a run, only over the median step of the run itself while no"
    " fault lasted; none where the host was contended in one of the two. Predicted: what the"
    " schedule of faults leaves of the steps, by the simulator. Participation: workers that took"
    " part in a step that counts, mean over steps; without a barrier each worker's steps over those"
    " of the one that made most. Times are medians over faults, from the moment a fault really"
    " happened: until the host had noticed it, until another worker had ended a step that it began"
    " after it, and until the node itself had ended a step again. Recovery: state that workers got"
    " from others. An exchange that was cut short had sent a part of its bytes, which no prediction"
    " has: with few exchanges, sent over predicted is above 1 by up to this share. Seconds are"
    " emulated."
)


def section(report: Report) -> Section | None:
    """Where a run had faults."""
    disturbed = [config for config in report.configurations if _has_faults(config.row)]
    if not disturbed:
        return None
    rows = [_row(report, config) for config in disturbed]
    body: list[Block] = [Bullets([text for text in _verdicts(rows) if text]), Table(rows, COLUMNS)]
    each = report.runs.faults
    if len(each):
        names = each["number"].map(report.run_names)
        records = each.assign(run=names).to_dict("records")
        body.append(Details("Every fault", [Table([_known(row) for row in records], EACH)]))
    table = pd.DataFrame(rows)[[column.key for column in COLUMNS]]
    tables = {"faults": table, "every_fault": report.runs.named(each)}
    return Section("faults", "Faults", body, NOTE, tables)


def _has_faults(row: pd.Series[Any]) -> bool:
    return bool(pd.notna(row["fault"]) or pd.notna(row["storm"]))


def _known(row: Mapping[Any, Any]) -> Row:
    return {str(key): None if pd.isna(value) else value for key, value in row.items()}


def _row(report: Report, config: Configuration) -> Row:
    runs = [run for _, run in config.runs.iterrows()]
    pairs = [(run, _undisturbed(report, run)) for run in runs]
    numbers = [*config.numbers, *(int(str(calm.name)) for _, calm in pairs if calm is not None)]
    is_contended = any(number in report.contended for number in numbers)
    goodputs = [_goodput(run, calm) for run, calm in pairs if calm is not None]
    changes = [
        float(run["accuracy"]) - float(calm["accuracy"])
        for run, calm in pairs
        if calm is not None and pd.notna(run["accuracy"]) and pd.notna(calm["accuracy"])
    ]
    faults = config.rows(report.runs.faults)
    predicted = [
        share
        for number, (run, calm) in zip(config.numbers, pairs, strict=True)
        if (share := _predicted(report, number, run if calm is None else calm)) is not None
    ]
    return {
        "configuration": config.label,
        "strategy": config.strategy,
        "colour": colour(config.strategy),
        "contended": is_contended,
        "goodput": None if is_contended else _mean([v for v in goodputs if v is not None]),
        "own_goodput": None if is_contended else config.mean("goodput"),
        "is_compared": any(value is not None for value in goodputs),
        "predicted": _mean(predicted),
        "participation": config.mean("participation"),
        "count": round(len(faults) / len(runs), 1),
        **{name: _median(faults[name]) for name in ("noticed_s", "resumed_s", "back_s")},
        "repeated_samples": config.mean("repeated_samples"),
        "recovered_bytes": config.mean("recovered_bytes"),
        "cut_short": _mean([share for run in runs if (share := _cut_short(run)) is not None]),
        "ratio": config.mean("sent_over_predicted"),
        "accuracy": config.mean("accuracy"),
        "accuracy_change": _mean(changes),
    }


def _cut_short(run: pd.Series[Any]) -> float | None:
    """Of all exchanges, at most: every change of workers stops one."""
    changes, rounds = run["generations"], run["rounds"]
    if pd.isna(changes) or pd.isna(rounds) or not float(rounds):
        return None
    return (float(changes) - 1) / float(rounds)


def _undisturbed(report: Report, run: pd.Series[Any]) -> pd.Series[Any] | None:
    """The completed run of the same options and seed without faults, where there is one."""
    table = report.runs.completed
    calm = table[table["fault"].isna() & table["storm"].isna()]
    same = [*OPTIONS, "strategy", "workers", "passes", "schedule", "engine"]
    for option in (name for name in same if name not in OF_FAULTS):
        value = run[option]
        calm = calm[calm[option].isna() if pd.isna(value) else calm[option] == value]
    return None if calm.empty else calm.iloc[0]


def _goodput(run: pd.Series[Any], calm: pd.Series[Any]) -> float | None:
    """Steps a second, of the undisturbed run's."""
    needed = (run["committed_steps"], run["disturbed_train_s"], calm["steps"], calm["train_s"])
    if any(pd.isna(value) or not float(value) for value in needed):
        return None
    steps, seconds, calm_steps, calm_seconds = map(float, needed)
    return (steps / seconds) / (calm_steps / calm_seconds)


def _predicted(report: Report, number: int, measured: pd.Series[Any]) -> float | None:
    """By the run's schedule of faults, with the step that was measured without them."""
    try:
        experiment = Experiment.from_json(report.runs.folders[number].read_spec())
    except (OSError, ValueError):
        return None
    quiet_s, compute_s = measured["step_median_s"], measured["compute_median_s"]
    if pd.isna(quiet_s) or not float(quiet_s):
        return None
    computed_s = 0.0 if pd.isna(compute_s) else float(compute_s)

    def step_s(run: Experiment) -> float:
        """What was measured, times what a slow link or node changes in the simulation."""
        own = {rank: 1.0 / cores for rank, cores in run.cpus_by_rank.items() if cores < 1}
        slowest = max(own.values(), default=1.0)
        plain = replace(run, bottleneck=None, straggler=None) if run.link else run
        slower = step_time(run, computed_s * slowest, run.workers)
        return float(quiet_s) * slower / step_time(plain, computed_s, run.workers)

    steps = experiment.steps_per_epoch * experiment.epochs
    try:
        return predict_goodput(experiment, steps, step_s)
    except (SpecError, ArithmeticError):
        return None


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """The order of goodput, in words, and what it cost in accuracy."""
    known = [row for row in rows if row["is_compared"]]
    if not known:
        return ["No run without faults is here to compare with: add --fault none or --storm none."]
    said = _order(known)
    changed = [row for row in known if row["accuracy_change"] is not None]
    if changed:
        lost = min(changed, key=lambda row: row["accuracy_change"])
        change = lost["accuracy_change"]
        said.append(
            f"The largest change of accuracy is that of {lost['configuration']}:"
            f" {percent_text(change, 2, signed=True)}."
            if change < 0
            else "No configuration has lost accuracy."
        )
    return said


def _order(known: Sequence[Row]) -> list[str]:
    if any(row["contended"] for row in known):
        return ["The host was contended in some of these runs: goodput has no order."]
    ordered = sorted(known, key=lambda row: -row["goodput"])
    best, worst = ordered[0], ordered[-1]
    kept = {name: percent_text(row["goodput"], 1) for name, row in (("b", best), ("w", worst))}
    said = [f"{best['configuration']} keeps {kept['b']} of its steps without faults"]
    if best is not worst:
        said[0] = f"{said[0]}, most of all; {worst['configuration']} keeps {kept['w']}"
    said[0] += "."
    return said


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _median(values: pd.Series[Any]) -> float | None:
    known = values.dropna().astype(float)
    return None if known.empty else float(median(known))
