"""Training traffic apart from what a library's workers say to each other about it. Pure.

Horovod's workers agree on what is ready by an exchange of a few bytes every millisecond, through the same
connections as the gradients. Bytes alone cannot tell the two apart, but bytes and TCP segments can: talk travels
in short segments, one a message, gradients in full ones. With S segments and P bytes of payload in a phase, segments
of F bytes when full, and c bytes in one of talk (measured while nothing is exchanged),

    S = K + (P - c K) / F      so      K = (S - P/F) / (1 - c/F)

is the number of messages of talk, and P - c K are gradients. A message of gradients ends in a segment that is not
full, which counts as talk in part: at most c bytes for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.summary.counters import spans
from cluster.spec.records import Counters

Events = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Control:
    message_bytes: float
    """Payload of one message of talk."""
    train_bytes: float
    """Payload of all of them in the train phase."""
    seconds: float
    """How long that phase was."""


def of_node(events: Events) -> Control | None:
    """What one node said; None where its launcher does not talk, or did not come to measure it."""
    rest = [e for e in events if e["event"] == "rest"]
    hello = next((e for e in events if e["event"] == "hello"), None)
    if len(rest) != 2 or hello is None:
        return None
    segments, payload = _between(*rest)
    if not segments:
        return Control(0.0, 0.0, 0.0)
    message, full = payload / segments, hello["segment_bytes"]
    train = spans(events, "train")
    sums = [_between(start, end) for start, end in train]
    segments, payload = sum(s for s, _ in sums), sum(p for _, p in sums)
    messages = (segments - payload / full) / (1 - message / full)
    seconds = sum(end["t"] - start["t"] for start, end in train)
    return Control(message, message * min(max(messages, 0.0), segments), seconds)


def _between(start: dict[str, Any], end: dict[str, Any]) -> tuple[int, int]:
    """Data segments and their payload, without what TCP sent again."""
    sent = Counters(*end["counters"]) - Counters(*start["counters"])
    repeated = end["repeated"] - start["repeated"]
    return end["segments"] - start["segments"], sent.sent_payload - repeated
