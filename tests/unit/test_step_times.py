"""Who waited for whom, on steps made by hand: every node's clock is the same."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.summary.step_times import Wait, by_node, periodic_median, steps_of_a_period, waits
from cluster.spec.documents.events import Step
from cluster.spec.experiment import Experiment

ALLREDUCE = Experiment(workers=2, epochs=1, train_size=8, batch_size=1)
PAIRS = Experiment(
    strategy="pairwise", passes=1, schedule="ring", workers=4, epochs=1, train_size=16, batch_size=1
)


def step(start: float, arrival: float, end: float) -> Step:
    """A node computes until it arrives at the exchange, which ends its step."""
    return Step(
        t=end,
        step_s=end - start,
        data_s=0.25 * (arrival - start),
        compute_s=0.75 * (arrival - start),
        exchange_s=end - arrival,
    )


def course(starts: list[float], arrivals: list[float]) -> list[Step]:
    """A step ends where the next one starts."""
    ends = [*starts[1:], starts[-1] + 10]
    return [step(*times) for times in zip(starts, arrivals, ends, strict=True)]


def test_a_node_waits_for_the_last_of_its_group_to_arrive() -> None:
    late, early = step(0, 4, 5), step(0, 1, 5)
    assert waits(ALLREDUCE, [[late], [early]]) == [[Wait(0, 0)], [Wait(3, 0)]]


def test_a_node_never_waits_longer_than_its_own_exchange_took() -> None:
    """Where gradients are averaged the update counts as computing, and an arrival may look late."""
    assert waits(ALLREDUCE, [[step(0, 4, 5)], [step(0, 1, 3)]])[1] == [Wait(2, 0)]


def test_in_pairwise_only_a_partner_of_the_round_is_waited_for() -> None:
    """Round 0 is (0 1) (2 3): node 3 is late for node 2. Round 1 is (0 3) (1 2): for node 0."""
    quick, slow = course([0, 2], [1, 3]), course([0, 8], [7, 9])
    by_rank = waits(PAIRS, [quick, quick, course([0, 8], [1, 9]), slow])
    first, second = ([of_node[index] for of_node in by_rank] for index in (0, 1))
    assert first == [Wait(0, 0), Wait(0, 0), Wait(6, 3), Wait(0, 3)]
    assert second == [Wait(6, 3), Wait(6, 2), Wait(0, 2), Wait(0, 3)]


def test_nobody_waits_in_a_step_without_an_exchange() -> None:
    """Three local steps and an epoch of four: exchanges end the third and the fourth."""
    rare = Experiment(workers=2, epochs=1, train_size=8, batch_size=1, local_steps=3)
    early, late = course([0, 10, 20, 30], [1, 11, 21, 31]), course([0, 10, 20, 30], [5, 15, 25, 35])
    assert waits(rare, [early, late])[0] == [Wait(0, None)] * 2 + [Wait(4, 1)] * 2


def test_a_median_is_taken_of_means_over_a_period() -> None:
    """Short and long in turn: a plain median would be 1 or 9, by the number of steps."""
    assert periodic_median(1, [1, 9, 1, 9, 1]) == 1
    assert periodic_median(2, [1, 9, 1, 9, 1]) == 5
    assert periodic_median(20, [1, 9, 1]) == pytest.approx(11 / 3)
    assert periodic_median(2, []) is None
    assert periodic_median(2, [None, None]) is None


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"strategy": "allreduce"}, 1),
        ({"strategy": "local-sgd", "local_steps": 8}, 8),
        ({"strategy": "pairwise", "passes": 1, "schedule": "ring"}, 2),
        ({"strategy": "pairwise", "passes": 2, "schedule": "ring"}, 3),
        ({"strategy": "pairwise", "passes": 1, "schedule": "ring", "local_steps": 4}, 8),
        ({"strategy": "pairwise", "passes": 5, "schedule": "ring"}, 1),
        ({"strategy": "single", "workers": 1}, 1),
    ],
)
def test_a_period_ends_when_all_partners_were_met(options: dict[str, Any], steps: int) -> None:
    assert steps_of_a_period(Experiment(**{"workers": 6, **options})) == steps


def test_a_node_that_mostly_waits_for_one_says_for_which() -> None:
    """node1 waits 6 s in all for node2 and 1 s for node0; the first step warms up."""
    trio = Experiment(workers=3, epochs=1, train_size=12, batch_size=1)
    starts: list[float] = [0, 10, 20, 30]
    arrivals = ([9, 11, 22, 31], [1, 11, 21, 31], [1, 14, 21, 34])
    entries = by_node(trio, [course(starts, list(map(float, times))) for times in arrivals])
    assert [node.waits_mostly_for for node in entries] == [2, 2, 0]
    assert [node.waiting_median_s for node in entries] == [3, 3, 0]
