"""Columns that published tables and lab sheets name beside those of the table of runs."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.report.references.lab_forms import OUT_OF_MEMORY
from analysis.report.traffic.bandwidth import exchange
from analysis.tables.load import Runs
from analysis.tables.steps import FIRST_STEPS

SAME_TRAINING = ("session", "train_size", "epochs", "gpu")
"""Where these and the batch are equal, a run's speed-up is against the single worker's."""


def with_derived(found: Runs) -> pd.DataFrame:
    """Completed runs, and those whose batch did not fit, with all columns that papers name."""
    table = found.table
    starved = table["error"].fillna("").str.contains(OUT_OF_MEMORY)
    runs = table[(table["status"] == "completed") | starved].assign(out_of_memory=starved)
    for epoch in (1, 2, 3):
        points = found.curves[found.curves["epoch"] == epoch].set_index("number")
        runs[f"epoch_{epoch}_accuracy"] = points["accuracy"]
    runs["busbw_bytes_per_s"] = [_bus_bandwidth(run) for _, run in runs.iterrows()]
    scores = found.scores.groupby("number")["accuracy"]
    runs["lowest_worker_accuracy"], runs["highest_worker_accuracy"] = scores.min(), scores.max()
    runs = with_first_losses(runs, found.steps)
    runs = with_buffers(with_epochs(runs, found.epochs))
    return with_speed_up(runs)


def _bus_bandwidth(run: pd.Series[Any]) -> float | None:
    found = exchange(run, run["exposed_communication_median_s"])
    return found[1].busbw if found else None


def with_first_losses(runs: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Adds the training loss of each of the first steps, mean over workers."""
    losses = steps.groupby(["step", "number"])["loss"].mean()
    known = losses.index.get_level_values("step")
    return runs.assign(
        **{
            f"loss_of_step_{step}": losses[step] if step in known else float("nan")
            for step in range(1, FIRST_STEPS + 1)
        }
    )


def with_epochs(runs: pd.DataFrame, epochs: pd.DataFrame) -> pd.DataFrame:
    """Adds times of the second epoch, and loss and accuracy of the last."""
    second = epochs[epochs["epoch"] == 2].set_index("number")
    last = epochs.sort_values("epoch").groupby("number").last()
    return runs.assign(
        second_epoch_s=second["seconds"],
        second_epoch_compute_s=second["compute_s"],
        second_epoch_communication_s=second["exposed_communication_s"],
        last_train_loss=last["train_loss"],
        last_train_accuracy=last["train_accuracy"],
    )


def with_buffers(runs: pd.DataFrame) -> pd.DataFrame:
    """Adds what a worker sends in a step more than where buffers stay local, as predicted."""
    same, sent = ["session", "strategy", "workers", "model"], "predicted_per_step_bytes"
    local = runs[runs["buffers"] == "local"].groupby(same)[sent].mean()
    alone = [local.get(tuple(run[same]), float("nan")) for _, run in runs.iterrows()]
    return runs.assign(buffers_per_step_bytes=runs[sent] - alone)


def with_speed_up(runs: pd.DataFrame) -> pd.DataFrame:
    """Adds one worker's seconds per sample over a run's: same batch a worker, same global batch.

    The first is weak scaling, the second strong.
    """
    runs = runs.assign(
        gpu=runs["gpu"].fillna(0),  # older runs do not say
        global_batch_size=runs["batch_size"] * runs["workers"],
    )
    steps = (runs["steps"] / runs["epochs"]).astype("float64")  # incomplete batches are dropped
    samples = steps * runs["global_batch_size"].astype("float64")
    seconds = runs["second_epoch_s"].astype("float64").where(lambda known: known > 0)
    runs["sample_s"] = seconds / samples
    single = runs[runs["strategy"] == "single"]
    for name, batch in (("speed_up", "batch_size"), ("strong_speed_up", "global_batch_size")):
        alone = single.groupby([*SAME_TRAINING, "batch_size"])["sample_s"].mean()
        runs[name] = [
            alone.get(tuple(run[[*SAME_TRAINING, batch]]), float("nan")) / run["sample_s"]
            for _, run in runs.iterrows()
        ]
    return runs
