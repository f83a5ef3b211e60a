"""Counters that are read one after the other belong together."""

from __future__ import annotations

import time

import pytest

from workloads.event_log import HELD_UP_S, TRIES, at_one_moment


@pytest.mark.parametrize(
    ("pauses", "read", "kept"),
    [
        ([0.0], 1, 0),
        ([10 * HELD_UP_S, 0.0], 2, 1),
        ([4 * HELD_UP_S, 2 * HELD_UP_S, 30 * HELD_UP_S], TRIES, 1),
    ],
    ids=["at once", "held up once", "always held up"],
)
def test_a_reading_that_was_held_up_is_made_again(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float], read: int, kept: int
) -> None:
    """The clock is ours, so that a busy machine's own pauses do not count."""
    clock = 0.0
    calls: list[int] = []

    def reading() -> int:
        nonlocal clock
        clock += pauses[len(calls)]
        calls.append(len(calls))
        return calls[-1]

    monkeypatch.setattr(time, "monotonic", lambda: clock)
    assert at_one_moment(reading) == kept
    assert len(calls) == read
