"""How training went: with what rate, on what shards, and what each epoch learned and took. Stdlib only."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from cluster.spec.experiment import Experiment
from cluster.spec.learning_rate import full_rate

Events = list[dict[str, Any]]

SPLIT = {"data_s": "data_s", "compute_s": "compute_s", "exposed_communication_s": "exchange_s"}
"""What an epoch's steps are split into, and its name in a step's event."""


def describe(experiment: Experiment, of_workers: Sequence[Events]) -> dict[str, Any]:
    hellos = [next((e for e in one if e["event"] == "hello"), {}) for one in of_workers]
    return {
        "parameters": hellos[0].get("parameters"),
        "learning_rate": {
            "given": experiment.lr,
            "rule": experiment.lr_rule,
            "full": full_rate(experiment),
            "warmup_steps": experiment.warmup_steps,
        },
        "shards": _shards([hello.get("labels") for hello in hellos]),
        "epochs": _epochs(experiment, of_workers),
    }


def _shards(counts: list[list[int] | None]) -> dict[str, Any] | None:
    """How often each label comes on each worker; None where they have no labels."""
    known = [one for one in counts if one and sum(one)]
    if not known or len(known) < len(counts):
        return None
    return {"label_counts": known, "label_skew": round(label_skew(known), 4)}


def label_skew(counts: Sequence[Sequence[int]]) -> float:
    """How far workers' labels are from everybody's: 0 alike, towards 1 nothing in common.

    The mean over workers of the total variation distance between their labels and those of all.
    """
    total = [sum(column) for column in zip(*counts, strict=True)]
    everybody = [share / sum(total) for share in total]
    return fmean(
        sum(abs(n / sum(one) - share) for n, share in zip(one, everybody, strict=True)) / 2
        for one in counts
    )


def _epochs(experiment: Experiment, of_workers: Sequence[Events]) -> list[dict[str, Any]]:
    """Epochs that all workers have completed: mean training loss and accuracy, and seconds of a worker.

    The first epoch warms up caches; a comparison of times leaves it out.
    """
    steps = [[e for e in one if e["event"] == "step"] for one in of_workers]
    size = experiment.steps_per_epoch
    done = min(len(one) for one in steps) // size
    epochs = []
    for index in range(done):
        course = [one[index * size : (index + 1) * size] for one in steps]
        epochs.append({"epoch": index + 1, **_of_epoch(experiment, course)})
    return epochs


def _of_epoch(experiment: Experiment, course: Sequence[Events]) -> dict[str, float | None]:
    every = [step for one in course for step in one]
    losses = [step["loss"] for step in every if step["loss"] is not None]
    correct = [step["correct"] for step in every if step.get("correct") is not None]
    learned = experiment.dataset != "none" and len(correct) == len(every)
    return {
        "loss": round(fmean(losses), 6) if losses else None,
        "accuracy": round(fmean(correct) / experiment.batch_size, 6) if learned else None,
        "seconds": _seconds(course, "step_s"),
        **{name: _seconds(course, source) for name, source in SPLIT.items()},
    }


def _seconds(course: Sequence[Events], name: str) -> float | None:
    """Of all steps of a worker, on average over the workers; None where it cannot be told."""
    times = [[step[name] for step in one] for one in course]
    if any(value is None for one in times for value in one):
        return None
    return round(fmean(sum(one) for one in times), 6)
