"""The order of a ring over sites: who sends to whom, and what the simulator makes of it."""

from typing import Any

import pytest

from analysis.predict.cluster_links import links_of
from analysis.predict.forecast import Cluster, forecast
from analysis.predict.simulation.nodes import Costs
from analysis.theory.traffic_matrix import matrix
from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import OF_FEW
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.messages import Setting

APART = "a:1,b:1,a:1,b:1,a:1,b:1"


@pytest.mark.parametrize("strategy", OF_FEW["ring_order"])
def test_a_ring_by_sites_crosses_once_each_way(strategy: str) -> None:
    run = Experiment(workers=6, strategy=strategy, sites=APART, ring_order="sites")
    setting = Setting(workers=6, model_bytes=6000, order=run.ring)
    sent = matrix(strategy, setting, 1)
    pairs = [(i, j) for i in range(6) for j in range(6) if sent[i][j] and i % 2 != j % 2]
    assert len(pairs) == 2
    assert {i % 2 for i, _ in pairs} == {0, 1}


def exchange_s(**options: Any) -> float:
    run = Experiment(workers=6, between="a-b:50mbit", **options)
    cluster = Cluster(strategy=run.strategy, workers=6, model_bytes=10**6, **links_of(run))
    return forecast(cluster, Costs()).exchange_s


def test_nodes_that_alternate_are_as_fast_as_neighbours_with_the_order_of_sites() -> None:
    neighbours = exchange_s(sites="a:3,b:3")
    assert exchange_s(sites=APART, ring_order="sites") == pytest.approx(neighbours, rel=1e-6)
    assert exchange_s(sites=APART) == pytest.approx(3 * neighbours, rel=0.02)


def test_the_order_of_ranks_is_the_default() -> None:
    run = Experiment(sites="a:2,b:2", ring_order="ranks")
    assert run == Experiment(sites="a:2,b:2")
    assert run.ring is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "needs --sites"),
        ({"sites": "a:2,b:2", "launcher": "horovod"}, "does not apply to launcher horovod"),
        ({"sites": "a:2,b:2", "on_failure": "continue"}, "does not go with on_failure continue"),
        ({"sites": "a:2,b:2", "strategy": "hierarchical"}, "it applies to: allreduce, ring"),
    ],
)
def test_where_there_is_no_such_order_it_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError) as refused:
        Experiment(ring_order="sites", **options)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)
