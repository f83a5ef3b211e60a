"""Time dilation changes how long a run takes, and neither its bytes nor what it learns."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from analysis.summary.node_log import NodeLog
from cluster.spec.documents.run_folder import RunFolder
from tests import laws
from tests.measuring import measure

NETNS = ("--engine", "netns")
SIZES = ("--workers", "2", "--link", "100mbit", "--epochs", "1", "--train-size", "6000")
QUOTA_S, TICK_S = 0.010 / 3, 0.010
"""A node is stopped when it has used its quota, at the next tick of the kernel."""


def test_a_dilated_run_sends_and_learns_the_same_and_tells_emulated_time(
    cpu_limits: None, tmp_path: Path
) -> None:
    sizes = (*SIZES, "--batch-size", "250", "--test-size", "200", "--strategy", "pairwise")
    measured = measure(*NETNS, *sizes, "--dilation", "1,3", "--output", str(tmp_path))
    assert measured.code == 0, measured.stderr
    plain, dilated = measured.summaries
    assert (plain["spec"]["dilation"], dilated["spec"]["dilation"]) == (1, 3)
    assert dilated["accuracy"] == plain["accuracy"]
    assert dilated["loss"] == plain["loss"]
    for summary in (plain, dilated):
        laws.bytes_are_as_predicted(summary, 0.03)
        assert [link["target_mbit"] for link in summary["links"]] == [100, 100]
    assert dilated["per_step"]["ratio"] == pytest.approx(plain["per_step"]["ratio"], abs=0.005)

    seconds = dilated["seconds"]
    assert seconds["wall_s"] == pytest.approx(3 * seconds["total_s"], rel=1e-3)
    run = RunFolder(tmp_path / dilated["session"] / dilated["run"])
    by_node = [NodeLog(run.read_events(rank)).steps for rank in (0, 1)]
    wall = median(step.step_s for steps in by_node for step in steps[1:])
    assert wall == pytest.approx(3 * seconds["step_median_s"], rel=1e-3)
    for steps in by_node:
        part = sum(step.step_s / 3 + QUOTA_S + TICK_S for step in steps)
        assert sum(step.cpu_s or 0.0 for step in steps) < part  # a third of a core
