"""The effect of one slow link on each strategy, on real namespaces: ratios within one session.

Four nodes and 3 MB; one link has 20 Mbit/s and the others no limit, so that a message takes 1.3 s
there and some hundredths of a second elsewhere.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from analysis.summary.node_log import read_logs
from analysis.summary.step_times import periodic_median
from cluster.spec.documents.run_folder import RunFolder, find_runs
from cluster.spec.schedules.pairwise import group_of, groups
from tests import laws
from tests.measuring import measure

pytestmark = pytest.mark.timed
Runs = dict[tuple[str, str | None], RunFolder]

WORKERS, SLOW, STEPS = 4, 2, 5
FEW_STEPS = 2
"""For gather-scatter, where a step takes 4 s with a slow root and steps hardly differ."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Run folders by strategy and bottleneck."""
    output = tmp_path_factory.mktemp("runs")
    flags = (
        *("--engine", "netns", "--workers", str(WORKERS), "--model", "synthetic:3M"),
        *("--epochs", "1", "--batch-size", "1", "--output", str(output)),
    )
    at_node, at_root = f"{SLOW}:20mbit", "0:20mbit"
    many = {"strategy": "allreduce,pairwise", "train_size": str(WORKERS * STEPS)}
    few = {"strategy": "gather-scatter", "train_size": str(WORKERS * FEW_STEPS)}
    cases = [(many, "none"), (many, at_node), (few, at_node), (few, at_root)]
    measured = measure(*flags, sweeps=[sizes | {"bottleneck": case} for sizes, case in cases])
    assert measured.code == 0, measured.stderr
    found = {}
    for folder in find_runs(output):
        spec = folder.read_experiment()
        found[spec.strategy, spec.bottleneck] = folder
    return found


def seconds(folder: RunFolder) -> dict[str, Any]:
    answer: dict[str, Any] = folder.read_summary().to_json()["seconds"]
    return answer


def by_rank(folder: RunFolder, name: str) -> list[list[float]]:
    """A value of every step, by rank."""
    logs = read_logs(folder, WORKERS)
    return [[getattr(step, name) for step in log.steps] for log in logs]


def pair_times(folder: RunFolder) -> list[dict[tuple[int, ...], float]]:
    """Exchange time of each pair, by round but the first, without waiting for the partner.

    The node that arrives last does not wait: its time is the pair's. A pair that was delayed in one
    round is late for its next partners.
    """
    steps = by_rank(folder, "exchange_s")
    return [
        {pair: min(steps[rank][t] for rank in pair) for pair in groups(t, WORKERS, 1, "ring", 1)}
        for t in range(1, STEPS)
    ]


def test_an_all_reduce_is_slowed_on_all_nodes_to_the_bound_of_the_slow_link(runs: Runs) -> None:
    """How near to the bound depends on the machine's load; see `python3 -m bench exchange`.

    Steps alternate a little, so they are taken by twos.
    """
    slow, free = runs["allreduce", "2:20mbit"], runs["allreduce", None]
    steps = [periodic_median(2, values[1:]) for values in by_rank(slow, "step_s")]
    assert steps == [pytest.approx(steps[SLOW], rel=0.05)] * WORKERS
    assert steps[SLOW] is not None
    assert steps[SLOW] > 0.98 * seconds(slow)["communication_bound_s"]
    assert steps[SLOW] > 4 * seconds(free)["step_median_s"]


def test_pairs_are_slowed_only_where_the_slow_node_is_one_of_them(runs: Runs) -> None:
    bound = seconds(runs["pairwise", "2:20mbit"])["communication_bound_s"]
    with_slow: list[float] = []
    without: list[float] = []
    for t, of_round in enumerate(pair_times(runs["pairwise", "2:20mbit"]), start=1):
        slow_pair = group_of(SLOW, t, WORKERS, 1, "ring", 1)
        for pair, time in of_round.items():
            (with_slow if pair == slow_pair else without).append(time)
    assert len(with_slow) == len(without) == STEPS - 1
    assert min(with_slow) > 0.9 * bound
    assert median(without) < 0.2 * bound  # as without a slow node


def test_partners_wait_for_the_slow_node_and_it_does_not_wait(runs: Runs) -> None:
    by_node = seconds(runs["pairwise", "2:20mbit"])["by_node"]
    assert [by_node[rank]["waits_mostly_for"] for rank in (1, 3)] == [SLOW, SLOW]
    waited = [node["waiting_median_s"] / node["step_median_s"] for node in by_node]
    assert waited[SLOW] < 0.1
    assert min(waited[1], waited[3]) > 0.3


def test_a_slow_root_slows_gather_scatter_more_than_a_slow_leaf(runs: Runs) -> None:
    leaf, root = (seconds(runs["gather-scatter", slow]) for slow in ("2:20mbit", "0:20mbit"))
    assert root["step_median_s"] > 2.5 * leaf["step_median_s"]


def test_retransmitted_bytes_count_once_for_a_pair(runs: Runs) -> None:
    for run in runs.values():
        laws.pairs_are_as_predicted(run.read_summary().to_json(), 0.02)
