"""All runs, those that were not completed too: what was sent, predicted and counted."""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.overview.overview import problem
from analysis.report.page import Column, Row, Section, Table
from cluster.observe.units import bytes_text, percents, seconds_text

four_digits = functools.partial(bytes_text, digits=4)
COLUMNS = [
    Column("run", "run_label", style="left"),
    Column("accuracy", "accuracy", percents()),
    Column("learning rate", "full_lr", "{:.3g}".format),
    Column("sent per worker and step", "sent_per_step_bytes", four_digits),
    Column("predicted", "predicted_per_step_bytes", four_digits),
    Column("framing", "predicted_framing_per_step_bytes", four_digits),
    Column("sent / predicted", "sent_over_predicted", "{:.3f}".format),
    Column("sent in training, all nodes", "train_sent_bytes", bytes_text),
    Column("median step", "step_median_s", seconds_text),
    Column("training", "train_s", seconds_text),
    Column("counters agree within", "counters_largest_difference", percents(3)),
]
NOTE = (
    "Sent per worker and step: payload of the training phase, mean over workers. Sent in training:"
    " all interfaces, headers included. Learning rate: after the scaling rule (--lr-rule) and"
    " warm-up. Counters: largest difference of the kernel's and Docker's counters from the worker's"
    " own."
)


def section(report: Report) -> Section:
    rows = [_row(report, int(str(number)), run) for number, run in report.runs.table.iterrows()]
    failed = sum(bool(row["run_label_problem"]) for row in rows)
    title = f"All {len(rows)} runs" + (f", {failed} of them not completed" if failed else "")
    table = Table(rows, COLUMNS, folds=True, name="runs")
    return Section("runs", title, [table], NOTE)


def _row(report: Report, number: int, run: pd.Series[Any]) -> Row:
    table = report.runs.table
    several = {name: table[name].nunique() > 1 for name in ("model", "engine", "session")}
    where = f"{run['session']}/{run['run']}" if several["session"] else str(run["run"])
    if several["engine"] and not pd.isna(run["engine"]):
        where = f"{run['engine']} {where}"
    if several["model"] and not pd.isna(run["model"]):
        where = f"{run['model']}, {where}"
    return {
        **{str(name): value for name, value in run.items()},
        "contended": number in report.contended,
        "run_label": report.run_names[number],
        "run_label_note": where,
        "run_label_problem": problem(run),
        "full_lr": _learning_rate(run),
        "full_lr_note": rule_words(run),
    }


def _learning_rate(run: pd.Series[Any]) -> float | None:
    return None if run["dataset"] == "none" or pd.isna(run["full_lr"]) else float(run["full_lr"])


def rule_words(run: pd.Series[Any]) -> str:
    """The rule that scaled --lr; empty where it was not scaled."""
    rule = run["lr_rule"]
    if pd.isna(rule) or rule == "none" or run["dataset"] == "none":
        return ""
    return f"{rule} rule, from {run['lr']:g}"
