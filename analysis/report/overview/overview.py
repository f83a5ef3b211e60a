"""One row per run, and the answer in a few sentences."""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.overview.answers import answers
from analysis.report.page import Column, Section, bullets, paragraphs, table_html
from analysis.tables.chance_level import is_chance_level
from analysis.tables.labels import differing, in_common, labels, scored_on, several_sizes
from cluster.observe.units import bytes_text, seconds_text
from cluster.spec.records import HEADER_BYTES

four_digits = functools.partial(bytes_text, digits=4)

COLUMNS = [
    Column("run", "run_label", left=True),
    Column("accuracy", "accuracy", "{:.2%}".format),
    Column("learning rate", "full_lr", "{:.3g}".format),
    Column("sent per worker and step", "sent_per_step_bytes", four_digits),
    Column("predicted", "predicted_per_step_bytes", four_digits),
    Column("sent / predicted", "sent_over_predicted", "{:.3f}".format),
    Column("sent in training, all nodes", "train_sent_bytes", bytes_text),
    Column("bytes for a point of accuracy", "bytes_per_point", bytes_text),
    Column("time per step", "step_median_s", seconds_text),
    Column("training", "train_s", seconds_text),
    Column("counters agree within", "counters_largest_difference", "{:.4%}".format),
]
NOTE = (
    f"Sent per step is the payload of the training phase: the bytes an interface counted less {HEADER_BYTES}"
    " for every packet's headers, mean over workers. Predicted is what theory says the strategy must send. Sent"
    " in training is what all interfaces counted, headers too; a point of accuracy is one percent of what it was tested on."
    " Learning rate is the one that the rule (--lr-rule) makes of --lr, after the warm-up."
    " Time per step is the median. Counters: how far the kernel's and Docker's, where read, are from the"
    " worker's own. Accuracy is of the average of all workers' models"
)


def problem(run: pd.Series[Any]) -> str:
    """Empty for a completed run; else its status and why."""
    if run["status"] == "completed":
        return ""
    return str(run["status"]) + ("" if pd.isna(run["error"]) else f": {run['error']}")


def section(report: Report) -> Section:
    table = report.runs.table
    names = labels_of(table)
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
                "run_label": f"{number}\u2002{names[number]}",
                "run_label_note": where,
                "run_label_problem": problem(run),
                "bytes_per_point": cost_of_a_point(run),
                "full_lr": _learning_rate(run),
                "full_lr_note": rule_words(run),
            }
        )
    rates = {(row["full_lr"], row["full_lr_note"]) for row in rows}
    columns = COLUMNS if len(rates) > 1 else [one for one in COLUMNS if one.key != "full_lr"]
    body = (
        paragraphs(_what(report) + (_rate(*rates.pop()) if len(rates) == 1 else ""))
        + bullets(answers(report), "answers")
        + table_html(rows, columns, folds=True)
    )
    return Section("overview", "Overview", body, f"{NOTE}, {scored_on(table)}.")


def _what(report: Report) -> str:
    """How many runs of what, and what is the same in all of them."""
    runs, kinds = len(report.runs.table), len(report.configurations)
    text = f"{runs} run{'' if runs == 1 else 's'}"
    if 1 < kinds < runs:
        text += f" of {kinds} configurations"
    lost = runs - len(report.runs.completed)
    text += f", {lost} of them not complete" if lost else ""
    common = in_common(report.runs.completed)
    return (
        f"{text}{', all with' if common and runs > 1 else ':' if common else ''} {common}".rstrip()
        + "."
    )


def _rate(full: float | None, note: str) -> str:
    """Of all runs, where it is one."""
    if full is None:
        return ""
    return f" Learning rate {full:.3g}{f' ({note})' if note else ''}."


def _learning_rate(run: pd.Series[Any]) -> float | None:
    return None if run["dataset"] == "none" or pd.isna(run["full_lr"]) else float(run["full_lr"])


def rule_words(run: pd.Series[Any]) -> str:
    """By which rule the rate was made of --lr; nothing where it is --lr itself."""
    rule = run["lr_rule"]
    return (
        ""
        if pd.isna(rule) or rule == "none" or run["dataset"] == "none"
        else f"{rule} rule, from {run['lr']:g}"
    )


def labels_of(table: pd.DataFrame) -> dict[Any, str]:
    """By number: what tells a run from the others of the same model, and its seed where they have several."""
    found: dict[Any, str] = {}
    sizes = several_sizes(table)
    for _, members in table.groupby("model", sort=False, dropna=False):
        rows = [run for _, run in members.iterrows()]
        texts = labels(rows, differing(members), with_workers=sizes)
        found |= dict(zip(members.index, texts, strict=True))
    return found


def cost_of_a_point(run: pd.Series[Any]) -> float | None:
    """Bytes of all nodes in training for each percent of accuracy; None where nothing was learned."""
    if pd.isna(run["accuracy"]) or pd.isna(run["train_sent_bytes"]) or not run["accuracy"]:
        return None
    if is_chance_level(run, float(run["accuracy"])):
        return None
    return float(run["train_sent_bytes"]) / (100 * float(run["accuracy"]))
