"""Connections of three nodes, put together to who sent what to whom. Numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.summary.summarise import summarise
from analysis.summary.traffic_matrix import measure, table
from cluster.spec.run_folder import find_runs
from tests import laws

RECORDED = Path(__file__).resolve().parents[1] / "data" / "runs"

Event = dict[str, Any]
A, B, C = "10.0.0.1:1001", "10.0.0.2:1002", "10.0.0.3:1003"
STORE = "10.0.0.1:29500"


def border(phase: str, *connections: tuple[str, str, int, int]) -> Event:
    return {"event": "phase", "phase": phase, "connections": [list(one) for one in connections]}


def node(*borders: Event, network: str = "one") -> list[Event]:
    return [{"event": "hello", "network": network}, *borders]


def test_the_two_ends_of_a_connection_find_each_other() -> None:
    """Between borders: what was carried before does not count, nor what is carried after."""
    first = node(
        border("setup"),
        border("train", (A, B, 50, 60)),
        border("evaluate", (A, B, 1050, 80)),
        border("train", (A, B, 1099, 99)),
        border("finish", (A, B, 2099, 119)),
    )
    second = node(
        border("setup"),
        border("train", (B, A, 60, 50)),
        border("evaluate", (B, A, 80, 1050)),
        border("train", (B, A, 99, 1099)),
        border("finish", (B, A, 119, 2095)),
        network="two",
    )
    found = measure([first, second], epochs=2)
    assert found is not None
    assert found.sent == {(0, 1): 2000, (1, 0): 40}
    assert found.received == {(0, 1): 1996, (1, 0): 40}
    assert (found.closed, found.talk) == (0, {})
    only_first = measure([first, second], epochs=1)
    assert only_first is not None
    assert only_first.sent == {(0, 1): 1000, (1, 0): 20}


def test_several_connections_of_a_pair_add_up_and_a_new_one_counts_from_its_start() -> None:
    other = "10.0.0.1:77"
    first = node(border("train", (A, B, 5, 0)), border("finish", (A, B, 15, 0), (other, C, 7, 3)))
    second = node(border("train", (B, A, 0, 5)), border("finish", (B, A, 0, 15), (C, other, 3, 7)))
    found = measure([first, second], epochs=1)
    assert found is not None
    assert found.sent == {(0, 1): 17, (1, 0): 3}


def test_a_connection_that_was_closed_is_said() -> None:
    first = node(border("train", (A, B, 5, 0)), border("finish"))
    second = node(border("train", (B, A, 0, 5)), border("finish", (B, A, 0, 9)))
    found = measure([first, second], epochs=1)
    assert found is not None
    assert found.closed == 1


def test_what_goes_to_none_of_the_nodes_or_to_itself_is_no_pair() -> None:
    own = (A, STORE, 9, 9), (STORE, A, 9, 9)
    first = node(border("train"), border("finish", *own, ("10.0.0.1:5", "10.0.0.9:80", 4, 2)))
    found = measure([first, node(border("train"), border("finish"))], epochs=1)
    assert found is not None
    assert found.sent == {(0, None): 4}
    assert found.received == {}


@pytest.mark.parametrize(
    ("networks", "sent"),
    [(("one", "two"), {(0, None): 8}), (("one", "one"), {(0, 1): 8, (1, 0): 0})],
)
def test_loopback_is_another_on_every_host(networks: tuple[str, str], sent: dict[Any, int]) -> None:
    here, there = "127.0.0.1:1", "127.0.0.1:2"
    first = node(border("train"), border("finish", (here, there, 8, 0)), network=networks[0])
    second = node(border("train"), border("finish", (there, here, 0, 8)), network=networks[1])
    found = measure([first, second], epochs=1)
    assert found is not None
    assert {pair: n for pair, n in found.sent.items() if n} == {p: n for p, n in sent.items() if n}


def test_talk_goes_where_it_goes_at_rest() -> None:
    """200 bytes of node 0's are talk, of which a quarter goes to node 1 while nothing is exchanged."""
    D = "10.0.0.1:1004"

    def logged(*rows: tuple[str, str, int, int]) -> list[Event]:
        before = {"event": "rest", "connections": [[h, t, 0, 0] for h, t, _, _ in rows]}
        after = {"event": "rest", "connections": [list(row) for row in rows]}
        whole = [(h, t, 100 * s, 100 * r) for h, t, s, r in rows]
        return node(border("train"), border("finish", *whole), before, after)

    found = measure(
        [logged((A, B, 10, 1), (D, C, 30, 2)), logged((B, A, 1, 10)), logged((C, D, 2, 30))],
        epochs=1,
        talk=[200.0, None, 0.0],
    )
    assert found is not None
    assert found.talk == {(0, 1): 50.0, (0, 2): 150.0}
    entries = table(found, [[0, 900, 0], [0, 0, 0], [0, 0, 0]])
    assert entries[0] == {
        "sender": 0,
        "receiver": 1,
        "sent": 1000,
        "received": 1000,
        "talk": 50,
        "predicted": 900,
    }
    assert [(one["sender"], one["receiver"]) for one in entries] == [(0, 1), (0, 2), (1, 0), (2, 0)]


def test_recorded_nodes_say_together_what_their_summary_has() -> None:
    runs = [one for one in find_runs(RECORDED) if one.read_summary().get("peers")]
    assert len(runs) == 3
    for run in runs:
        recorded = run.read_summary()
        assert summarise(run, run.read_experiment(), "completed").peers == recorded["peers"]
        laws.pairs_are_as_predicted(recorded, 0.03)


def test_where_a_node_did_not_count_nothing_is_said() -> None:
    whole = node(border("train"), border("finish"))
    old = node({"event": "phase", "phase": "train"}, border("finish"))
    old_kernel = node(border("train"), {"event": "phase", "phase": "finish", "connections": None})
    assert measure([whole, old], epochs=1) is None
    assert measure([whole, old_kernel], epochs=1) is None
    assert measure([whole, whole], epochs=0) is None
    assert measure([whole, whole], epochs=1) is not None
