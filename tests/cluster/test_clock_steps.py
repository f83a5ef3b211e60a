"""A run during which the wall clock is stepped, in the host's process and in all nodes."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.network_report import main
from analysis.tables.load import load_runs
from cluster.spec.documents.events import Step
from cluster.spec.documents.run_folder import RunFolder
from tests.measuring import await_steps, finish, one, start, worker_processes
from tests.wall_clock import WallClock

STEPS_S = (-3600, -2, 3600)
SLACK_S = 60
"""By which the machine's own clock may be off meanwhile."""


def test_steps_of_the_wall_clock_change_no_duration_and_damage_no_summary(tmp_path: Path) -> None:
    """One run of 100 steps of 20 ms; the clock is stepped after 10, 20 and 30 of them."""
    clock = WallClock.build(tmp_path)
    began, started = time.time(), time.monotonic()
    process = start(
        *("--engine", "netns", "--workers", "2", "--model", "synthetic:40k:2:20ms"),
        *("--epochs", "1", "--batch-size", "1", "--train-size", "200"),
        *("--output", str(tmp_path / "runs")),
        prefix=("env", *(f"{name}={value}" for name, value in clock.variables.items())),
    )
    for place, seconds in enumerate(STEPS_S, start=1):
        run = RunFolder(await_steps(tmp_path / "runs", 10 * place))
        for worker in worker_processes(tmp_path / "runs") if place == 1 else ():
            assert clock.is_in(worker)
        clock.step(seconds)
    assert clock.seen_s() == pytest.approx(sum(STEPS_S), abs=SLACK_S)
    summary = one(finish(process))
    elapsed_s = time.monotonic() - started

    durations = summary["seconds"]
    steps = [event for event in run.read_events(0) if isinstance(event, Step)]
    assert len(steps) == 100
    assert sum(step.step_s for step in steps) - 0.1 < durations["train_s"] < durations["total_s"]
    assert durations["total_s"] < elapsed_s
    for node in durations["by_node"]:
        assert node["waiting_median_s"] <= node["step_median_s"] < elapsed_s
    for times in (
        [sample.t for sample in run.read_samples()],
        *([event.t for event in run.read_events(rank)] for rank in range(2)),
    ):
        assert all(before <= after for before, after in pairwise(times))
        assert began - SLACK_S < times[0] < times[-1] < began + elapsed_s + SLACK_S

    assert main([str(tmp_path / "runs"), "--output", str(tmp_path / "report")]) == 0
    runs = load_runs(tmp_path / "runs")
    assert list(runs.table["status"]) == ["completed"]
    assert sum(runs.rates[1].sent_bit["node0"]) > 0
