"""Strategies without a barrier in namespaces: bytes, slow nodes, and the data of every worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.report.context import Report
from analysis.report.time import pace
from analysis.summary.node_log import read_logs
from analysis.tables.load import load_runs
from cluster.spec.documents.run_folder import RunFolder
from tests import laws
from tests.measuring import measure

NETNS = ("--engine", "netns")


@pytest.mark.parametrize(("model", "tolerance"), [("4M:8:5ms", 0.005), ("400k:4:5ms", 0.02)])
def test_bytes_are_those_of_the_recorded_exchanges(
    model: str, tolerance: float, tmp_path: Path
) -> None:
    laws.unpaced_runs_agree("netns", f"synthetic:{model}", tolerance, tmp_path)


def test_a_slow_node_makes_fewer_steps_of_the_same_batches(tmp_path: Path) -> None:
    """Buffers are averaged, too. Step k of a worker has the same batch, however fast it is."""
    flags = ("--workers", "3", "--model", "mnist-bn", *laws.SMALL, "--lr", "1e-9", *NETNS)
    measured = measure(
        *(*flags, "--strategy", laws.UNPACED, "--bottleneck", "none", "--bottleneck", "2:2mbit"),
        *("--dilation", "1", "--output", str(tmp_path)),
    )
    assert measured.code == 0, measured.stderr
    assert len(measured.summaries) == 6
    correct: dict[tuple[int, int], set[int | None]] = {}
    for summary in measured.summaries:
        steps = [worker["steps"] for worker in summary["progress"]]
        assert sum(steps) == 3 * 20 * 2
        if summary["spec"]["bottleneck"]:
            assert steps[2] < min(steps[:2]), summary["run"]
        else:
            laws.pairs_are_as_predicted(summary, 0.03)
        if summary["spec"]["strategy"] == "async-pairwise":
            folder = RunFolder(tmp_path / summary["session"] / summary["run"])
            for rank, log in enumerate(read_logs(folder, 3)):
                for step in log.steps:
                    correct.setdefault((rank, step.step), set()).add(step.correct)
    assert {len(found) for found in correct.values()} == {1}
    _the_report_compares_slow_nodes(tmp_path)


def _the_report_compares_slow_nodes(folder: Path) -> None:
    report = Report.of(load_runs(folder))
    found = pace.section(report)
    assert found is not None
    rows = {row["configuration"]: row for row in found.body[0].rows}  # type: ignore[union-attr]
    assert len(rows) == 6
    for row in rows.values():
        is_slow = "node 2" in row["configuration"]
        assert (row["of_undisturbed"] is not None) == is_slow
        assert (row["slow_steps"] is not None) == is_slow
        assert row["others_per_s"] > 0
    assert len(found.tables["pace_by_worker"]) == 6 * 3
