"""The simulator on paths between sites, and on links that change."""

from dataclasses import replace

import pytest

from analysis.predict.cluster_links import links_of
from analysis.predict.forecast import Cluster, forecast, on_the_wire, train_s
from analysis.predict.simulation.nodes import Costs
from analysis.theory.predicted_bytes import WIRE_PER_PAYLOAD
from cluster.spec.exchange.strategies import messages
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.messages import Setting

MODEL_BYTES = 4_000_000
FREE = Costs()


def cluster(strategy: str = "allreduce", **options: object) -> Cluster:
    run = Experiment(workers=4, strategy=strategy, **options)  # type: ignore[arg-type]
    pairs = {"passes": run.passes, "schedule": run.schedule}
    sizes = {"workers": 4, "model_bytes": MODEL_BYTES}
    return Cluster(strategy=strategy, **sizes, **pairs, **links_of(run))  # type: ignore[arg-type]


def crossing_s(mbit: float, share: float = 1.5) -> float:
    """Of this share of the model, with what its messages take beside."""
    one = sum(flow.message_bytes for flow in on_the_wire(messages("allreduce", 0, SETTING)))
    return share * MODEL_BYTES * float(one) / raw() * WIRE_PER_PAYLOAD * 8 / (mbit * 1e6)


SETTING = Setting(workers=4, model_bytes=MODEL_BYTES)


def raw() -> float:
    return float(sum(flow.message_bytes for flow in messages("allreduce", 0, SETTING)))


def test_a_ring_crosses_a_path_once_or_as_often_as_its_order_makes_it() -> None:
    """Each hop of a ring carries 2(N-1)/N of the model; all that cross at a time share the path."""
    for sites, hops in (("a:2,b:2", 1), ("a:1,b:1,a:1,b:1", 2)):
        found = forecast(cluster(sites=sites, between="a-b:20mbit"), FREE)
        assert found.exchange_s == pytest.approx(crossing_s(20, 1.5 * hops), rel=0.02)


def test_a_path_has_a_rate_for_each_direction() -> None:
    """Gathering at the root, in a, is 2 M from b; scattering, 2 M back, begins with its pieces."""
    found = forecast(cluster("gather-scatter", sites="a:2,b:2", between="a-b:20mbit/5mbit"), FREE)
    assert found.exchange_s == pytest.approx(crossing_s(5, 2), rel=0.02)


def test_nodes_inside_a_site_do_not_feel_the_path() -> None:
    free, shaped = (
        forecast(cluster(sites="a:3,b:1", between=between, link="100mbit"), FREE).exchange_s
        for between in ("a-b:10gbit", "a-b:1gbit")
    )
    assert shaped == pytest.approx(free, rel=1e-3)


def test_a_path_delays_every_message_that_crosses_it() -> None:
    near, far = (
        forecast(cluster("gather-scatter", sites="a:2,b:2", between=f"a-b:50mbit{delay}"), FREE)
        for delay in ("", "/40ms")
    )
    assert far.exchange_s - near.exchange_s == pytest.approx(0.08, rel=0.01)


def test_a_run_takes_what_its_changing_link_gives() -> None:
    """A dip to a tenth for 20 s of rounds: what is left of them takes the usual time."""
    trace = "1:10s=10mbit/30s=100mbit"
    steady = cluster(link="100mbit")
    round_s = forecast(steady, FREE).exchange_s
    rounds = round(60 / round_s)
    plain = replace(steady, rounds=rounds)
    traced = replace(cluster(link="100mbit", link_trace=trace), rounds=rounds)
    assert train_s(plain, FREE) == pytest.approx(rounds * round_s, rel=0.01)
    assert train_s(traced, FREE) == pytest.approx(rounds * round_s + 20 * 0.9, rel=0.01)


@pytest.mark.parametrize(("strategy", "messages_in_turn"), [("ring", 6), ("pairwise", 1)])
def test_a_message_waits_for_its_receivers_word_and_both_links_delay_it(
    strategy: str, messages_in_turn: int
) -> None:
    """Both go through two links of 5 ms: 20 ms for each message that follows another."""
    more = {"passes": 1} if strategy == "pairwise" else {}
    near, far = (
        forecast(cluster(strategy, link=f"100mbit{delay}", **more), FREE).exchange_s
        for delay in ("", "/5ms")
    )
    assert far - near == pytest.approx(messages_in_turn * 0.02, rel=0.05)
