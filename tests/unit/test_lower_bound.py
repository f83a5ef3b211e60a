"""The shortest all-reduce of all schedules: known optima, and no strategy that is shorter."""

from __future__ import annotations

import math
import random

import pytest

from analysis.predict.lower_bound import all_reduce_bound_s
from analysis.predict.simulation import simulator
from analysis.predict.simulation.nodes import Costs, Node
from cluster.spec.exchange.strategies import STRATEGIES, facts_of
from cluster.spec.schedules.messages import Setting

SIZE, RATE = 3_000_000, 1e6
EVERYTHING = [name for name, facts in STRATEGIES.items() if facts.averages_everything]


@pytest.mark.parametrize("workers", [2, 3, 4, 7, 64, 1024])
def test_equal_links_take_what_a_ring_takes(workers: int) -> None:
    rates = [RATE] * workers
    ring = 2 * (workers - 1) / workers * SIZE / RATE
    assert all_reduce_bound_s(SIZE, rates, rates) == pytest.approx(ring)


@pytest.mark.parametrize("workers", [3, 6, 20])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.55, 0.6, 0.9])
def test_a_slow_node_sends_its_part_and_the_others_do_the_rest(workers: int, share: float) -> None:
    rates = [share * RATE, *[RATE] * (workers - 1)]
    expected = max(SIZE / rates[0], 2 * (workers - 1) * SIZE / sum(rates))
    assert all_reduce_bound_s(SIZE, rates, rates) == pytest.approx(expected)


def test_nothing_takes_no_time_and_a_free_link_takes_none_of_it() -> None:
    assert all_reduce_bound_s(SIZE, [math.inf] * 3, [math.inf] * 3) == 0
    assert all_reduce_bound_s(0, [RATE] * 3, [RATE] * 3) == 0
    one = [RATE, math.inf, math.inf]
    assert all_reduce_bound_s(SIZE, one, one) == pytest.approx(SIZE / RATE)


@pytest.mark.parametrize("strategy", [name for name in EVERYTHING if name != "single"])
def test_no_strategy_is_shorter(strategy: str) -> None:
    draw = random.Random(strategy)
    facts = facts_of(strategy)
    for workers in (2, 3, 6):
        nodes = [
            Node(draw.uniform(0.1, 1) * RATE, draw.uniform(0.1, 1) * RATE)
            for _ in range(workers + facts.has_server)
        ]
        setting = Setting(workers=workers, model_bytes=SIZE)
        found = simulator.simulate(lambda t, s=setting: facts.messages(t, s), nodes, 1, Costs())  # type: ignore[misc]
        if not facts.has_server:  # a server's own link is one more than the bound has
            bound = all_reduce_bound_s(SIZE, [n.up for n in nodes], [n.down for n in nodes])
            assert found.round_s >= bound * (1 - 1e-9)
