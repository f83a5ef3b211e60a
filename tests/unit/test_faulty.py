"""Predicted goodput: schedules of faults whose cost is known by arithmetic."""

from __future__ import annotations

import pytest

from analysis.predict.faulty import REFORM_S, goodput
from cluster.spec.experiment import Experiment

STEPS, STEP_S = 100, 1.0


def run(fault: str | None, **options: object) -> Experiment:
    return Experiment(fault=fault, workers=4, **options)  # type: ignore[arg-type]


def predicted(experiment: Experiment, slower: float = 1.0) -> float:
    """`slower`: how many times as long a step takes with a slow link or node."""

    def step_s(asked: Experiment) -> float:
        is_slow = asked.bottleneck is not None or asked.straggler is not None
        return STEP_S * (slower if is_slow else 1.0)

    return goodput(experiment, STEPS, step_s)


def test_without_faults_nothing_is_lost() -> None:
    assert predicted(run(None)) == 1.0


def test_workers_wait_for_one_that_is_frozen() -> None:
    assert predicted(run("1:freeze@10s/20s")) == pytest.approx(100 / 120)
    assert predicted(run("1:freeze@step11/20s")) == pytest.approx(100 / 120)


def test_faults_at_the_same_time_cost_as_much_as_the_longest() -> None:
    assert predicted(run("1:freeze@10s/20s,2:unplug@15s/15s")) == pytest.approx(100 / 120)


def test_a_fault_after_the_end_costs_nothing() -> None:
    assert predicted(run("1:freeze@101s/20s")) == 1.0
    assert predicted(run("1:freeze@10s/20s,2:freeze@110s/5s")) == pytest.approx(100 / 125)


def test_a_slow_link_stretches_the_steps_while_it_lasts() -> None:
    """Ten steps fit into the 20 s in which a step takes 2 s."""
    throttled = run("1:throttle=5mbit@10s/20s", link="100mbit", dilation=1.0)
    assert predicted(throttled, slower=2.0) == pytest.approx(100 / 110)
    assert predicted(run("1:cpu=0.5@10s/20s"), slower=2.0) == pytest.approx(100 / 110)


def test_without_a_barrier_only_the_victims_steps_are_lost() -> None:
    found = predicted(run("1:freeze@10s/20s", strategy="async-pairwise"))
    assert found == pytest.approx(100 / 105)
    goes_on = run("1:freeze@10s/20s", strategy="async-pairwise", on_failure="continue")
    assert predicted(goes_on) == pytest.approx(100 / (105 + 1.75 * REFORM_S))


def test_a_run_that_never_goes_on_has_next_to_no_goodput() -> None:
    assert predicted(run("1:freeze@10s")) < 0.06


def test_a_storm_is_predicted_as_well() -> None:
    storm = Experiment(storm="freezes=30s,down=5s,seed=3", workers=4)
    calm = Experiment(storm="freezes=3000s,down=5s,seed=3", workers=4)
    assert 0.5 < predicted(storm) < 0.95 < predicted(calm) <= 1
