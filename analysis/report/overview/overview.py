"""All runs in one table, and the findings in a few sentences."""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.overview.answers import answers
from analysis.report.page import Block, Bullets, Column, Row, Section, Table, Text
from analysis.tables.configurations import is_chance_level
from analysis.tables.labels import in_common, scored_on
from cluster.observe.units import bytes_text, percents, seconds_text
from cluster.spec.documents.records import HEADER_BYTES

four_digits = functools.partial(bytes_text, digits=4)

COLUMNS = [
    Column("run", "run_label", style="left"),
    Column("accuracy", "accuracy", percents()),
    Column("learning rate", "full_lr", "{:.3g}".format),
    Column("sent per worker and step", "sent_per_step_bytes", four_digits),
    Column("predicted", "predicted_per_step_bytes", four_digits),
    Column("sent / predicted", "sent_over_predicted", "{:.3f}".format),
    Column("sent in training, all nodes", "train_sent_bytes", bytes_text),
    Column("payload per point of accuracy", "bytes_per_point", bytes_text),
    Column("median step", "step_median_s", seconds_text),
    Column("training", "train_s", seconds_text),
    Column("counters agree within", "counters_largest_difference", percents(3)),
]
NOTE = (
    "Sent per worker and step: payload of the training phase, mean over workers; payload is what an"
    f" interface counted less {HEADER_BYTES} bytes of headers per packet. Predicted: bytes that the"
    " strategy's message schedule sends. Sent in training: all interfaces, headers included. A"
    " point of accuracy is one percent. Learning rate: after the scaling rule (--lr-rule) and"
    " warm-up. Counters: largest difference of the kernel's and Docker's counters from the worker's"
    " own. Accuracy: of the average of all workers' models, {scored_on}."
)


def problem(run: pd.Series[Any]) -> str:
    """Empty for a completed run; else its status and the error."""
    if run["status"] == "completed":
        return ""
    return str(run["status"]) + ("" if pd.isna(run["error"]) else f": {run['error']}")


def section(report: Report) -> Section:
    table = report.runs.table
    rows = _rows(report)
    rates = {(row["full_lr"], row["full_lr_note"]) for row in rows}
    columns = [column for column in COLUMNS if column.key != "full_lr" or len(rates) > 1]
    body: list[Block] = [
        Text(_summary(report) + (_rate(*rates.pop()) if len(rates) == 1 else "")),
        Bullets(answers(report), "answers"),
        Table(rows, columns, folds=True),
    ]
    return Section("overview", "Overview", body, NOTE.format(scored_on=scored_on(table)))


def _rows(report: Report) -> list[Row]:
    table = report.runs.table
    several_models, several_engines, several_sessions = (
        table[name].nunique() > 1 for name in ("model", "engine", "session")
    )
    rows = []
    for number, run in table.iterrows():
        where = f"{run['session']}/{run['run']}" if several_sessions else str(run["run"])
        if several_engines and not pd.isna(run["engine"]):
            where = f"{run['engine']} {where}"
        if several_models and not pd.isna(run["model"]):
            where = f"{run['model']}, {where}"
        rows.append(
            {
                **{str(name): value for name, value in run.items()},
                "run_label": report.run_names[int(str(number))],
                "run_label_note": where,
                "run_label_problem": problem(run),
                "bytes_per_point": cost_of_a_point(run),
                "full_lr": _learning_rate(run),
                "full_lr_note": rule_words(run),
            }
        )
    return rows


def _summary(report: Report) -> str:
    """How many runs and configurations, and what is the same in all of them."""
    runs, kinds = len(report.runs.table), len(report.configurations)
    text = f"{runs} run{'' if runs == 1 else 's'}"
    if 1 < kinds < runs:
        text += f" of {kinds} configurations"
    lost = runs - len(report.runs.completed)
    text += f", {lost} of them not completed" if lost else ""
    common = in_common(report.runs.completed)
    if common:
        text += f"{', all with' if runs > 1 else ':'} {common}"
    return f"{text}."


def _rate(full: float | None, note: str) -> str:
    """The learning rate that all runs share."""
    if full is None:
        return ""
    return f" Learning rate {full:.3g}{f' ({note})' if note else ''}."


def _learning_rate(run: pd.Series[Any]) -> float | None:
    return None if run["dataset"] == "none" or pd.isna(run["full_lr"]) else float(run["full_lr"])


def rule_words(run: pd.Series[Any]) -> str:
    """The rule that scaled --lr; empty where it was not scaled."""
    rule = run["lr_rule"]
    if pd.isna(rule) or rule == "none" or run["dataset"] == "none":
        return ""
    return f"{rule} rule, from {run['lr']:g}"


def cost_of_a_point(run: pd.Series[Any]) -> float | None:
    """Payload of all nodes in training per percent of accuracy; None at chance level."""
    if pd.isna(run["accuracy"]) or pd.isna(run["train_payload_bytes"]) or not run["accuracy"]:
        return None
    if is_chance_level(run, float(run["accuracy"])):
        return None
    return float(run["train_payload_bytes"]) / (100 * float(run["accuracy"]))
