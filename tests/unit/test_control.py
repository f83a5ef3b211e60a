"""Talk and gradients, mixed in one connection, are told apart by the segments they travel in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from analysis.summary.control_traffic import of_node

FULL = 1448
HEADER = 66


def node_events(
    talk: int, message: int, gradients: list[int], repeated: int = 0
) -> list[dict[str, Any]]:
    """A node that says `talk` messages in training beside gradient messages of these sizes."""
    segments, payload, packets = 0, 0, 0
    events: list[dict[str, Any]] = [{"event": "hello", "segment_bytes": FULL}]

    def border(kind: str, t: float, **values: Any) -> None:
        counters = (payload + repeated + HEADER * packets, packets, 0, 0)
        events.append(
            {
                "event": kind,
                "t": t,
                "counters": counters,
                "segments": segments,
                "repeated": repeated,
                **values,
            }
        )

    border("phase", 0.0, phase="train")
    segments += talk + sum(-(-size // FULL) for size in gradients)
    payload += talk * message + sum(gradients)
    packets += talk + len(gradients)
    border("phase", 10.0, phase="finish")
    border("rest", 11.0, began=True)
    segments, payload, packets = segments + 500, payload + 500 * message, packets + 500
    border("rest", 12.0, began=False)
    border("end", 13.0)
    return events


@given(
    talk=some.integers(0, 100_000),
    message=some.integers(100, 400),
    gradients=some.lists(some.integers(1, 10**7), max_size=50),
)
def test_talk_is_found_to_within_a_message_for_each_of_gradients(
    talk: int, message: int, gradients: list[int]
) -> None:
    found = of_node(node_events(talk, message, gradients))
    assert found is not None
    assert found.message_bytes == pytest.approx(message)
    beyond = found.train_bytes - talk * message
    assert -1 <= beyond <= message / (1 - message / FULL) * len(gradients) + 1
    assert found.seconds == 10.0


def test_full_segments_alone_are_all_gradients() -> None:
    found = of_node(node_events(0, 152, [FULL * 1000]))
    assert found is not None
    assert found.train_bytes == pytest.approx(0, abs=1)


def test_what_tcp_sent_again_is_no_talk() -> None:
    events = node_events(1000, 152, [FULL * 1000])
    for event in events[2:]:
        sent, *others = event["counters"]
        event["counters"] = (sent + 10 * FULL, *others)
        event["repeated"] += 10 * FULL
    found = of_node(events)
    assert found is not None
    assert found.train_bytes == pytest.approx(1000 * 152)


def test_a_launcher_that_does_not_talk_has_no_control() -> None:
    events = node_events(10, 152, [FULL])
    assert of_node([e for e in events if e["event"] != "rest"]) is None
    silent = [{**e, "segments": 7, "counters": (0, 0, 0, 0)} for e in events]
    silent[0] = events[0]
    found = of_node(silent)
    assert found is not None
    assert found.train_bytes == 0
