"""Who came last to an exchange and why: each cause from steps that have no other."""

from __future__ import annotations

import dataclasses

import pytest

from analysis.summary.arrivals import describe, in_order
from cluster.observe.late import TOLD_AFTER, LateWatch
from cluster.spec.arrivals import ANOTHER, COMPUTING, CORE, LINK, arrivals
from cluster.spec.documents.events import Step

EXCHANGE_S = 0.05


def step(number: int, began_t: float, compute_s: float, end_t: float, wait_s: float = 0.0) -> Step:
    ready_t = began_t + compute_s
    return Step(
        t=end_t,
        step=number,
        step_s=end_t - began_t,
        data_s=0.0,
        compute_s=compute_s,
        exchange_s=end_t - ready_t,
        ready_t=ready_t,
        wait_s=wait_s,
    )


def run(count: int, compute_s: list[float], wait_s: list[float] | None = None) -> list[list[Step]]:
    """Steps with a barrier: all end when the last has computed, and the exchange is over."""
    waits = wait_s or [0.0] * len(compute_s)
    steps: list[list[Step]] = [[] for _ in compute_s]
    t = 100.0
    for number in range(1, count + 1):
        end_t = t + max(compute_s) + EXCHANGE_S
        for rank, seconds in enumerate(compute_s):
            steps[rank].append(step(number, t, seconds, end_t, waits[rank]))
        t = end_t
    return steps


def test_the_order_is_that_of_being_ready() -> None:
    exchange = arrivals({0: step(1, 0, 0.3, 1), 1: step(1, 0, 0.1, 1), 2: step(1, 0, 0.2, 1)})
    assert exchange is not None
    assert exchange.order == (1, 2, 0)
    assert exchange.late_s == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("slow", "cause"),
    [
        (step(2, 10.0, 0.3, 11.0), COMPUTING),
        (step(2, 10.0, 0.3, 11.0, wait_s=0.18), CORE),
        (step(2, 10.2, 0.1, 11.0), LINK),
    ],
)
def test_a_cause_is_named(slow: Step, cause: str) -> None:
    others = {rank: step(2, 10.0, 0.1, 11.0) for rank in range(3)}
    exchange = arrivals({**others, 3: slow})
    assert exchange is not None
    assert (exchange.last, exchange.cause) == (3, cause)


def test_a_node_that_its_own_limit_stops_is_computing() -> None:
    others = {rank: step(2, 10.0, 0.1, 11.0) for rank in range(3)}
    slow = dataclasses.replace(step(2, 10.0, 0.3, 11.0, wait_s=0.18), throttled_s=0.18)
    exchange = arrivals({**others, 3: slow})
    assert exchange is not None
    assert exchange.cause == COMPUTING


def test_one_that_waited_for_another_is_not_blamed_for_its_link() -> None:
    first = arrivals({0: step(1, 9, 0.1, 10), 1: step(1, 9, 0.1, 10.2), 2: step(1, 9, 0.8, 10)})
    second = {0: step(2, 10, 0.1, 11), 1: step(2, 10.2, 0.1, 11), 2: step(2, 10, 0.1, 11)}
    exchange = arrivals(second, first)
    assert exchange is not None
    assert (exchange.last, exchange.cause) == (1, ANOTHER)


def test_equal_workers_have_an_order_but_nobody_is_late() -> None:
    steps = run(5, [0.100, 0.101, 0.1015])
    assert [each.cause for each in in_order(steps)] == [None] * 5
    assert [node.last for node in describe(steps, 1.0)] == [0, 0, 0]


def test_a_summary_counts_who_was_last_and_why() -> None:
    found = describe(run(20, [0.1, 0.1, 0.3]), slowdown=2.0)
    assert [(node.node, node.last, node.cause) for node in found] == [
        ("node0", 0, None),
        ("node1", 0, None),
        ("node2", 20, COMPUTING),
    ]
    assert found[2].late_median_s == pytest.approx(0.1)  # emulated
    assert found[2].exchanges == 20


def test_runs_that_do_not_tell_have_no_arrivals() -> None:
    untold = [[Step(step=1, step_s=1, data_s=0, compute_s=None, exchange_s=None)]] * 3
    assert describe(untold, 1.0) == []
    assert describe([[], []], 1.0) == []


def test_a_line_is_told_after_forty_exchanges_and_then_rarely() -> None:
    watch = LateWatch(3)
    lines = [
        line
        for steps in zip(*run(10 * TOLD_AFTER, [0.1, 0.1, 0.3]), strict=True)
        for rank, each in enumerate(steps)
        if (line := watch.note(rank, each))
    ]
    assert lines == [
        "  node2 has been last for 40 exchanges: computing",
        "  node2 has been last for 400 exchanges: computing",
    ]


def test_another_last_node_begins_anew() -> None:
    watch = LateWatch(3)
    half = TOLD_AFTER - 1
    for compute_s in ([0.1, 0.1, 0.3], [0.3, 0.1, 0.1]):
        for steps in zip(*run(half, compute_s), strict=True):
            assert [watch.note(rank, each) for rank, each in enumerate(steps)] == [None] * 3
