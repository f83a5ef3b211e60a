"""Summaries of runs that were never made, for tests of what is said about slow nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.summary.step_times import by_node
from analysis.summary.summarise import summarise
from cluster.spec.documents.events import Step
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment

ENDS = (100.0, 200.0)
"""When all nodes end their steps."""


def summary_of(
    folder: RunFolder, experiment: Experiment, steps_s: Sequence[float]
) -> dict[str, Any]:
    """A run with these step times by rank, 10 ms of them compute; most other values are unknown."""
    document = summarise(folder, experiment, "completed").to_json()
    steps = [
        [Step(t=t, step_s=s, data_s=0.0, compute_s=0.01, exchange_s=s - 0.01) for t in ENDS]
        for s in steps_s
    ]
    document |= {"model_bytes": 1000, "steps": len(ENDS), "rounds": len(ENDS)}
    document["seconds"]["by_node"] = [node.to_json() for node in by_node(experiment, steps)]
    return document
