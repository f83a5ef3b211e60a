"""The traffic matrix from the connections of three nodes. Numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.summary.node_log import NodeLog
from analysis.summary.summarise import summarise
from analysis.summary.traffic_matrix import measure, table
from cluster.spec.documents.events import Boundary, ConnectionBytes, Hello, Idle, Phase
from cluster.spec.documents.records import Counters
from cluster.spec.documents.run_folder import find_runs
from cluster.spec.documents.summary import PairTraffic
from tests import laws

RECORDED = Path(__file__).resolve().parents[1] / "data" / "runs"

A, B, C = "10.0.0.1:1001", "10.0.0.2:1002", "10.0.0.3:1003"
STORE = "10.0.0.1:29500"


Row = tuple[str, str, int, int]


def boundary(phase: str, *rows: Row) -> Phase:
    return Phase(phase=phase, counters=Counters(), connections=connections(*rows))


def idle(began: bool, *rows: Row) -> Idle:
    return Idle(began=began, counters=Counters(), connections=connections(*rows))


def connections(*rows: Row) -> list[ConnectionBytes]:
    return [ConnectionBytes(*row) for row in rows]


def node(*boundaries: Boundary, network: str = "one") -> NodeLog:
    return NodeLog([Hello(rank=0, network=network), *boundaries])


def test_the_two_ends_of_a_connection_find_each_other() -> None:
    """Between boundaries: what was carried before does not count, nor what is carried after."""
    first = node(
        boundary("setup"),
        boundary("train", (A, B, 50, 60)),
        boundary("evaluate", (A, B, 1050, 80)),
        boundary("train", (A, B, 1099, 99)),
        boundary("finish", (A, B, 2099, 119)),
    )
    second = node(
        boundary("setup"),
        boundary("train", (B, A, 60, 50)),
        boundary("evaluate", (B, A, 80, 1050)),
        boundary("train", (B, A, 99, 1099)),
        boundary("finish", (B, A, 119, 2095)),
        network="two",
    )
    found = measure([first, second], epochs=2)
    assert found is not None
    assert found.sent == {(0, 1): 2000, (1, 0): 40}
    assert found.received == {(0, 1): 1996, (1, 0): 40}
    assert (found.closed, found.control) == (0, {})
    only_first = measure([first, second], epochs=1)
    assert only_first is not None
    assert only_first.sent == {(0, 1): 1000, (1, 0): 20}


def test_several_connections_of_a_pair_add_up_and_a_new_one_counts_from_its_start() -> None:
    other = "10.0.0.1:77"
    first = node(
        boundary("train", (A, B, 5, 0)), boundary("finish", (A, B, 15, 0), (other, C, 7, 3))
    )
    second = node(
        boundary("train", (B, A, 0, 5)), boundary("finish", (B, A, 0, 15), (C, other, 3, 7))
    )
    found = measure([first, second], epochs=1)
    assert found is not None
    assert found.sent == {(0, 1): 17, (1, 0): 3}


def test_a_connection_that_was_closed_is_said() -> None:
    first = node(boundary("train", (A, B, 5, 0)), boundary("finish"))
    second = node(boundary("train", (B, A, 0, 5)), boundary("finish", (B, A, 0, 9)))
    found = measure([first, second], epochs=1)
    assert found is not None
    assert found.closed == 1


def test_what_goes_to_none_of_the_nodes_or_to_itself_is_no_pair() -> None:
    own = (A, STORE, 9, 9), (STORE, A, 9, 9)
    first = node(boundary("train"), boundary("finish", *own, ("10.0.0.1:5", "10.0.0.9:80", 4, 2)))
    found = measure([first, node(boundary("train"), boundary("finish"))], epochs=1)
    assert found is not None
    assert found.sent == {(0, None): 4}
    assert found.received == {}


@pytest.mark.parametrize(
    ("networks", "sent"),
    [(("one", "two"), {(0, None): 8}), (("one", "one"), {(0, 1): 8, (1, 0): 0})],
)
def test_loopback_is_another_on_every_host(networks: tuple[str, str], sent: dict[Any, int]) -> None:
    here, there = "127.0.0.1:1", "127.0.0.1:2"
    first = node(boundary("train"), boundary("finish", (here, there, 8, 0)), network=networks[0])
    second = node(boundary("train"), boundary("finish", (there, here, 0, 8)), network=networks[1])
    found = measure([first, second], epochs=1)
    assert found is not None
    assert {pair: n for pair, n in found.sent.items() if n} == {p: n for p, n in sent.items() if n}


def test_control_traffic_goes_where_it_goes_while_idle() -> None:
    """Of node 0's 200 bytes of control traffic a quarter goes to node 1 while it is idle."""
    D = "10.0.0.1:1004"

    def logged(*rows: Row) -> NodeLog:
        before = [(local, remote, 0, 0) for local, remote, _, _ in rows]
        train = [(local, remote, 100 * sent, 100 * got) for local, remote, sent, got in rows]
        pause = idle(True, *before), idle(False, *rows)
        return node(boundary("train"), boundary("finish", *train), *pause)

    found = measure(
        [logged((A, B, 10, 1), (D, C, 30, 2)), logged((B, A, 1, 10)), logged((C, D, 2, 30))],
        epochs=1,
        control=[200.0, None, 0.0],
    )
    assert found is not None
    assert found.control == {(0, 1): 50.0, (0, 2): 150.0}
    entries = table(found, [[0, 900, 0], [0, 0, 0], [0, 0, 0]], 3)
    assert entries[0] == PairTraffic(
        sender=0,
        receiver=1,
        sent_bytes=1000,
        received_bytes=1000,
        control_bytes=50,
        predicted_bytes=900,
    )
    assert [(pair.sender, pair.receiver) for pair in entries] == [(0, 1), (0, 2), (1, 0), (2, 0)]


def test_recorded_nodes_say_together_what_their_summary_has() -> None:
    runs = [run for run in find_runs(RECORDED) if run.read_summary().traffic_matrix]
    assert len(runs) == 3
    for run in runs:
        recorded = run.read_summary()
        found = summarise(run, run.read_experiment(), "completed").traffic_matrix
        assert found == recorded.traffic_matrix
        laws.pairs_are_as_predicted(recorded.to_json(), 0.03)


def test_where_a_node_did_not_count_nothing_is_said() -> None:
    whole = node(boundary("train"), boundary("finish"))
    old_kernel = node(boundary("train"), Phase(phase="finish", counters=Counters()))
    assert measure([whole, old_kernel], epochs=1) is None
    assert measure([whole, whole], epochs=0) is None
    assert measure([whole, whole], epochs=1) is not None
