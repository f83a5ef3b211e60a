"""One row per run, and the answer in a few sentences."""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd

from analysis.answers import answers
from analysis.labels import differing, label
from analysis.page import Column, Section, bullets, table_html
from analysis.sections.report import Report
from cluster.records import HEADER_BYTES
from cluster.units import bytes_text, seconds_text

four_digits = functools.partial(bytes_text, digits=4)

COLUMNS = [
    Column("run", "run_label", left=True),
    Column("accuracy", "accuracy", "{:.2%}".format),
    Column("sent per worker and step", "sent_per_step_bytes", four_digits),
    Column("predicted", "predicted_per_step_bytes", four_digits),
    Column("sent / predicted", "sent_over_predicted", "{:.3f}".format),
    Column("sent in all", "train_sent_bytes", bytes_text),
    Column("bytes for a point of accuracy", "bytes_per_point", bytes_text),
    Column("time per step", "step_median_s", seconds_text),
    Column("training", "train_s", seconds_text),
    Column("counters agree within", "counters_largest_difference", "{:.4%}".format),
]
NOTE = (
    f"Sent per step is the payload of the training phase: the bytes an interface counted less {HEADER_BYTES}"
    " for every packet's headers, mean over workers. Predicted is what theory says the strategy must send. Sent"
    " in all is what all interfaces counted in training, and a point of accuracy is one percent of the test set."
    " Time per step is the median. Counters: how far the kernel's and Docker's, where read, are from the"
    " worker's own. Accuracy is of the average of all workers' models, on the whole test set."
)


def problem(run: pd.Series[Any]) -> str:
    """Empty for a completed run; else its status and why."""
    if run["status"] == "completed":
        return ""
    return str(run["status"]) + ("" if pd.isna(run["error"]) else f": {run['error']}")


def section(report: Report) -> Section:
    table = report.runs.table
    labels = labels_of(table)
    several_models = table["model"].nunique() > 1
    rows = []
    for number, run in table.iterrows():
        place = f"{run['session']}/{run['run']}"
        where = place if pd.isna(run["engine"]) else f"{run['engine']} {place}"
        if several_models and not pd.isna(run["model"]):
            where = f"{run['model']}, {where}"
        rows.append(
            {
                **{str(name): value for name, value in run.items()},
                "run_label": f"{number}\u2002{labels[number]}",
                "run_label_note": where,
                "run_label_problem": problem(run),
                "bytes_per_point": cost_of_a_point(run),
            }
        )
    body = bullets(answers(report), "answers") + table_html(rows, COLUMNS, folds=True)
    return Section("overview", "Overview", body, NOTE)


def labels_of(table: pd.DataFrame) -> dict[Any, str]:
    """By number: what tells a run from the others of the same model, and its seed where they have several."""
    found: dict[Any, str] = {}
    for _, members in table.groupby("model", sort=False, dropna=False):
        knobs = differing(members)
        found |= {number: label(run, knobs) for number, run in members.iterrows()}
    return found


def cost_of_a_point(run: pd.Series[Any]) -> float | None:
    """Bytes of all nodes in training for each percent of accuracy; None where nothing was learned."""
    if pd.isna(run["accuracy"]) or pd.isna(run["train_sent_bytes"]) or not run["accuracy"]:
        return None
    return float(run["train_sent_bytes"]) / (100 * float(run["accuracy"]))
