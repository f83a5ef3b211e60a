"""Streaming (--stream FRAGMENTS:DELAY:KEPT): rounds exchange one fragment of the model, in turn.

The outer delta of the fragment is exchanged while the worker trains on. DELAY steps after the
round, or at the end of the epoch, the outer optimiser makes its new anchor, and the fragment
becomes

    KEPT own + (1 - KEPT) anchor

DELAY 0 waits for the exchange, as local-sgd does.
"""

from dataclasses import dataclass

FORM = "FRAGMENTS:DELAY:KEPT"
MOST_FRAGMENTS = 256


@dataclass(frozen=True)
class Stream:
    fragments: int
    delay: int
    """Steps between the begin of an exchange and the use of its result."""
    kept: float
    """Share of the worker's own parameters."""


def parse_stream(text: str) -> Stream | None:
    """None for `none`; ValueError for what is no streaming."""
    if text == "none":
        return None
    parts = text.split(":")
    try:
        found = Stream(int(parts[0]), int(parts[1]), float(parts[2]))
    except (ValueError, IndexError):
        found = None
    if found is None or len(parts) != 3:
        raise ValueError(f"must be none or {FORM}, such as 4:1:0.5, not {text!r}")
    if not 1 <= found.fragments <= MOST_FRAGMENTS:
        raise ValueError(f"FRAGMENTS must be 1 to {MOST_FRAGMENTS}, not {parts[0]}")
    if found.delay < 0:
        raise ValueError(f"DELAY must be 0 steps or more, not {parts[1]}")
    if not 0 <= found.kept < 1:
        raise ValueError(f"KEPT must be at least 0 and below 1, not {parts[2]}")
    return found
