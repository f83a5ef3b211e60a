"""Scalars of a run: the same names, steps and times in every format that has them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import NamedTuple

from analysis.export.exported_run import ExportedRun
from analysis.tables.columns import find
from cluster.spec.documents.codec import hints
from cluster.spec.documents.run_folder import node_name
from cluster.spec.documents.summary import CurvePoint, EpochCourse

OF_A_STEP = ("loss", "step_s", "data_s", "compute_s", "exchange_s")
OF_AN_EVALUATION = {
    "accuracy": "test_accuracy",
    "loss": "test_loss",
    "consensus_distance": "consensus_distance",
    "sent_bytes": "sent_bytes_so_far",
    "seconds": "train_s_so_far",
}
"""Key of the summary's curve -> name of the scalar."""
OF_AN_EPOCH = {key: key for key in hints(EpochCourse) if key != "epoch"}
FINAL = {
    "accuracy": "accuracy",
    "loss": "loss",
    "sent_bytes": "bytes.train.sent_bytes",
    "sent_per_step_bytes": "per_step.sent_mean_bytes",
    "sent_over_predicted": "per_step.ratio",
    "step_median_s": "seconds.step_median_s",
    "train_s": "seconds.train_s",
}
"""Name of the scalar -> key of the summary."""


class Scalar(NamedTuple):
    name: str
    """For example step/loss (mean over workers), node0/loss or epoch/test_accuracy."""
    step: int
    """Of training; the epoch for epoch/... From 1."""
    value: float
    t: float
    """Unix time, seconds: when it was measured."""


def scalars(run: ExportedRun) -> Iterator[Scalar]:
    """Every step and every epoch; what is null is left out."""
    by_worker = run.record.steps
    for same in zip(*by_worker, strict=False):
        t = max(step.t for step in same)
        for key in OF_A_STEP:
            values = [getattr(step, key) for step in same]
            if None not in values:
                yield Scalar(f"step/{key}", same[0].step, fmean(values), t)
    for rank, steps in enumerate(by_worker):
        for step in steps:
            for key in OF_A_STEP:
                if (value := getattr(step, key)) is not None:
                    yield Scalar(f"{node_name(rank)}/{key}", step.step, value, step.t)
    yield from _of_epochs(run)


def _of_epochs(run: ExportedRun) -> Iterator[Scalar]:
    """At the time of their evaluation; of their last step where there was none."""
    ends = {step.epoch: step.t for step in run.record.steps[0]}
    ends |= {event.epoch: event.t for event in run.record.logs[0].epochs}
    training = run.summary.training
    named: list[tuple[CurvePoint | EpochCourse, dict[str, str]]] = [
        *((point, OF_AN_EVALUATION) for point in run.summary.curve),
        *((course, OF_AN_EPOCH) for course in (training.epochs if training else ())),
    ]
    for entry, names in named:
        t = ends.get(entry.epoch, run.interval[1])
        for key, name in names.items():
            if (value := getattr(entry, key)) is not None:
                yield Scalar(f"epoch/{name}", entry.epoch, value, t)


def final_scalars(run: ExportedRun) -> dict[str, float]:
    """The numbers by which runs are compared."""
    found = {f"final/{name}": find(run.summary, key) for name, key in FINAL.items()}
    return {name: float(value) for name, value in found.items() if value is not None}
