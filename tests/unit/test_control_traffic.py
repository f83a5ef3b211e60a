"""Control traffic and gradients on one connection are told apart by their segments."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from analysis.summary.control_traffic import mean, of_node, of_other_programs
from analysis.summary.node_log import NodeLog
from cluster.spec.documents.events import (
    Boundary,
    ConnectionBytes,
    End,
    Event,
    Hello,
    Idle,
    Phase,
)
from cluster.spec.documents.records import Counters

FULL = 1448
HEADER = 66


def node_events(messages: int, message: int, gradients: list[int]) -> list[Event]:
    """A node with so many control messages in training beside gradient messages of these sizes."""
    segments, payload, packets = 0, 0, 0
    events: list[Event] = [Hello(rank=0, segment_bytes=FULL)]

    def boundary(kind: type[Boundary], t: float, **values: Any) -> None:
        events.append(
            kind(
                t=t,
                counters=Counters(payload + HEADER * packets, packets),
                sent_segments=segments,
                retransmitted_bytes=0,
                **values,
            )
        )

    boundary(Phase, 0.0, phase="train")
    segments += messages + sum(-(-size // FULL) for size in gradients)
    payload += messages * message + sum(gradients)
    packets += messages + len(gradients)
    boundary(Phase, 10.0, phase="finish")
    boundary(Idle, 11.0, began=True)
    segments, payload, packets = segments + 500, payload + 500 * message, packets + 500
    boundary(Idle, 12.0, began=False)
    boundary(End, 13.0)
    return events


@given(
    messages=some.integers(0, 100_000),
    message=some.integers(100, 400),
    gradients=some.lists(some.integers(1, 10**7), max_size=50),
)
def test_control_traffic_is_exact_to_one_message_for_each_of_gradients(
    messages: int, message: int, gradients: list[int]
) -> None:
    found = of_node(NodeLog(node_events(messages, message, gradients)))
    assert found is not None
    assert found.message_bytes == pytest.approx(message)
    beyond = found.train_bytes - messages * message
    assert -1 <= beyond <= message / (1 - message / FULL) * len(gradients) + 1
    assert found.seconds == 10.0


def test_full_segments_alone_are_all_gradients() -> None:
    found = of_node(NodeLog(node_events(0, 152, [FULL * 1000])))
    assert found is not None
    assert found.train_bytes == pytest.approx(0, abs=1)


def test_what_tcp_sent_again_is_no_control_traffic() -> None:
    """Ten full segments, between the begin of training and all later boundaries."""
    again = Counters(10 * FULL)
    events = node_events(1000, 152, [FULL * 1000])
    events[2:] = [
        dataclasses.replace(e, counters=e.counters + again, retransmitted_bytes=10 * FULL)
        for e in events[2:]
        if isinstance(e, Boundary)
    ]
    found = of_node(NodeLog(events))
    assert found is not None
    assert found.train_bytes == pytest.approx(1000 * 152)


def test_a_launcher_that_sends_nothing_while_idle_has_no_control_traffic() -> None:
    events = node_events(10, 152, [FULL])
    assert of_node(NodeLog([e for e in events if not isinstance(e, Idle)])) is None
    silent = [
        dataclasses.replace(e, sent_segments=7, counters=Counters())
        for e in events
        if isinstance(e, Boundary)
    ]
    found = of_node(NodeLog([events[0], *silent]))
    assert found is not None
    assert found.train_bytes == 0


def on_a_shared_host(exchanged: int, again: int, others: int) -> NodeLog:
    """A host whose worker exchanged over one connection while other programs sent, too."""
    before, after = 500, 500 + exchanged
    ends = ("10.0.0.1:1", "10.0.0.2:2")
    return NodeLog(
        [
            Phase(
                t=1.0,
                phase="train",
                counters=Counters(9_000),
                retransmitted_bytes=0,
                connections=[ConnectionBytes(*ends, before, 0)],
            ),
            End(
                t=5.0,
                counters=Counters(9_000 + exchanged + again + others),
                retransmitted_bytes=again,
                connections=[ConnectionBytes(*ends, after, 0)],
            ),
        ]
    )


def test_what_other_programs_of_a_host_send_is_control_traffic() -> None:
    for exchanged, again, others in ((10**6, 0, 700), (10**6, 2896, 700), (0, 0, 0)):
        log = on_a_shared_host(exchanged, again, others)
        found = of_other_programs(log, exchanged + again + others, again)
        assert found is not None
        assert (found.train_bytes, found.seconds) == (others, 4.0)
        summary = mean([found, found])
        assert summary is not None
        assert (summary.sent_mean_bytes, summary.bytes_per_s) == (others, others / 4)
        assert summary.message_bytes is None


def test_where_connections_are_not_known_other_programs_are_not_either() -> None:
    log = on_a_shared_host(10**6, 0, 700)
    first, last = log.events
    assert isinstance(last, End)
    unknown: list[list[ConnectionBytes] | None] = [None, []]
    for connections in unknown:
        gone = NodeLog([first, dataclasses.replace(last, connections=connections)])
        assert of_other_programs(gone, 10**6 + 700, 0) is None
