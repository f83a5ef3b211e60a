"""Background traffic: as text, what is refused, and what the simulator makes of it."""

from dataclasses import replace
from typing import Any

import pytest

from analysis.predict.cluster_links import links_of
from analysis.predict.forecast import Cluster, forecast
from analysis.predict.simulation.nodes import Costs
from cluster.links.background import Background
from cluster.spec.background import Flow, parse_background, write_background
from cluster.spec.documents.event import Event
from cluster.spec.documents.events import Phase
from cluster.spec.documents.link_events import BackgroundChanged
from cluster.spec.documents.records import Counters
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment


def test_flows_are_text_and_values() -> None:
    found = parse_background(" 3-1:2mbit, 1-3:0.01gbit")
    assert found == (Flow(1, 3, 10**7), Flow(3, 1, 2 * 10**6))
    assert parse_background(write_background(found)) == found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1-3", "'1-3' is not NODE-NODE:RATE"),
        ("a-b:1mbit", "'a-b:1mbit' is not NODE-NODE:RATE"),
        ("1:1mbit", "'1:1mbit' is not NODE-NODE:RATE"),
        ("1-1:1mbit", "'1-1' is one node"),
        ("1-2:1mbit,1-2:2mbit", "1-2 is named twice"),
        ("1-2:1gbit", "rate must be between 100kbit and 200mbit"),
        ("1-2:fast", "fast"),
        ("1-9:1mbit", "there is no node 9, the 4 nodes are 0 to 3"),
        ("0-1:10mbit", "would fill the 10mbit between node 0 and node 1"),
        ("0-3:6mbit", "would fill the 5mbit between node 0 and node 3"),
    ],
)
def test_a_wrong_flow_is_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as refused:
        Experiment(link="10mbit", sites="a:2,b:2", between="a-b:5mbit/20mbit", background=text)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("background")


def test_background_has_no_place_without_links_of_nodes() -> None:
    flow: dict[str, Any] = {"background": "0-1:1mbit"}
    with pytest.raises(SpecError, match="does not apply to virtual workers"):
        Experiment(virtual=True, **flow)
    with pytest.raises(SpecError, match="does not apply to a program"):
        Experiment(program="train.py", folder="/", **flow)
    with pytest.raises(SpecError, match="does not apply to strategy single"):
        Experiment(strategy="single", workers=1, **flow)


class Nodes:
    def __init__(self) -> None:
        self.told: list[bool] = []

    def send_background(self, is_on: bool) -> None:
        self.told.append(is_on)


def test_it_is_sent_from_training_until_the_run_is_over() -> None:
    nodes, written = Nodes(), list[Event]()
    background = Background("0-1:1mbit", nodes, written.append)
    for phase in ("setup", "train", "evaluate", "train"):
        background.note(Phase(phase=phase, counters=Counters()))
    background.end()
    background.end()
    assert nodes.told == [True, False]
    assert [event.is_on for event in written if isinstance(event, BackgroundChanged)] == nodes.told


FREE = Costs()


def exchange_s(strategy: str = "allreduce", **options: object) -> float:
    run = Experiment(workers=4, strategy=strategy, **options)  # type: ignore[arg-type]
    cluster = Cluster(strategy=strategy, workers=4, model_bytes=4_000_000, **links_of(run))
    return forecast(replace(cluster, rounds=2), FREE).exchange_s


def test_messages_get_what_background_leaves_of_a_link() -> None:
    """A ring waits for its slowest hop, which has 75 of 100 Mbit/s left."""
    alone = exchange_s(link="100mbit")
    assert exchange_s(link="100mbit", background="1-3:25mbit") == pytest.approx(
        alone * 100 / 75, rel=0.02
    )


def test_background_gets_no_more_than_its_fair_share() -> None:
    """A message and a flow that would fill the link of their sender: each has half of it."""
    alone, beside = (exchange_s(link="100mbit", background=b) for b in (None, "0-2:99mbit"))
    assert beside == pytest.approx(2 * alone, rel=0.02)


def test_background_between_sites_shares_their_path() -> None:
    sites = {"sites": "a:2,b:2", "between": "a-b:50mbit"}
    flow = "0-2:20mbit,2-0:20mbit"
    assert exchange_s(**sites, background=flow) == pytest.approx(
        exchange_s(**sites) * 50 / 30, rel=0.02
    )
