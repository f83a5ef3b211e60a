"""What must hold of every run in every engine. Shared by tests/cluster and tests/docker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.measuring import measure

SMALL = ("--epochs", "2", "--train-size", "2400", "--batch-size", "40")
MATRIX = [
    # workers, flags, expected runs
    (6, ("--strategy", "allreduce,pairwise", "--passes", "1,2,5"), 4),
    (5, ("--passes", "1,3"), 2),
    (4, ("--strategy", "ring,allgather,gather-scatter,reduce-broadcast,local-sgd"), 5),
]


def bytes_agree(engine: str, workers: int, flags: tuple[str, ...], runs: int, output: Path) -> None:
    """Payload matches theory, independent counters match each other, what is sent arrives."""
    measured = measure(
        "--engine", engine, "--workers", str(workers), *flags, *SMALL, "--output", str(output)
    )
    assert measured.code == 0, measured.stderr
    assert len(measured.summaries) == runs
    for summary in measured.summaries:
        summary_is_true(summary, engine)
    # One cluster served all runs of the sweep.
    assert measured.stderr.count(f"starting {workers} nodes") == 1


def summary_is_true(summary: dict[str, Any], engine: str) -> None:
    name = summary["run"]
    small_message = summary["model_bytes"] < 100_000
    tolerance = 0.03 if small_message else 0.02
    assert summary["per_step"]["ratio"] == pytest.approx(1, abs=tolerance), name
    busiest = summary["per_step"]["sent_max"] / summary["per_step"]["predicted_max"]
    assert busiest == pytest.approx(1, abs=tolerance), name

    sources = {"worker", "kernel", "docker"} if engine == "docker" else {"worker", "kernel"}
    counters = summary["counters"]
    assert {source for source in sources if counters[source] is None} == set(), name
    assert counters["largest_difference"] < 0.01, name

    for phase in ("train", "total"):
        booked = summary["bytes"][phase]
        assert booked["sent"] == pytest.approx(booked["received"], rel=0.01), (name, phase)
    phases = ("setup", "train", "evaluate", "finish")
    assert sum(summary["bytes"][p]["sent"] for p in phases) == summary["bytes"]["total"]["sent"]
    assert len(summary["bytes"]["nodes"]) == summary["spec"]["workers"]
    assert summary["curve"][-1]["sent_bytes"] == summary["bytes"]["train"]["sent"], name
