"""One worker's event log: a JSON line per event, or a readable line where nothing is recorded."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any, TextIO, TypeVar

from cluster.spec.records import event
from workloads.counters.connections import read_connections
from workloads.counters.interfaces import read_interfaces, read_segments

HELD_UP_S = 0.005
"""Readings that took longer do not belong together: a library's workers talk on meanwhile. With ten connections they
take 0.3 ms."""
TRIES = 3
T = TypeVar("T")


def at_one_moment(read: Callable[[], T]) -> T:
    """What it read; where that took long, again, and then of the reading that took the least."""
    readings = []
    for _ in range(TRIES):
        started = time.monotonic()
        found = read()
        took = time.monotonic() - started
        readings.append((took, found))
        if took < HELD_UP_S:
            break
    return min(readings, key=itemgetter(0))[1]


class EventLog:
    """Line-buffered: a line costs microseconds, and a crash loses none."""

    def __init__(
        self, path: Path | None, node: str, sharers: int = 1, *, aloud: bool = False
    ) -> None:
        """`sharers` is how many workers there are on this host, and count the same interfaces.

        `aloud` prints the readable lines, too, where events go to a file.
        """
        self.node, self.sharers, self.aloud = node, sharers, aloud
        self.file: TextIO | None = None if path is None else path.open("w", buffering=1)

    def border(self, kind: str, **values: Any) -> None:
        """An event at which bytes are booked: with what the node's counters show now."""
        connections, interfaces, segments = at_one_moment(
            lambda: (read_connections(), read_interfaces(self.sharers), read_segments())
        )
        self.write(
            kind,
            **values,
            counters=[n // self.sharers for n in interfaces.values()],
            repeated=sum(one.repeated_bytes for one in connections or ()),
            segments=segments // self.sharers,
            connections=None if connections is None else [one.row() for one in connections],
        )

    def write(self, kind: str, **values: Any) -> None:
        if self.file is not None:
            self.file.write(json.dumps(event(kind, **values), separators=(",", ":")) + "\n")
        if (self.file is None or self.aloud) and kind in ("epoch", "result", "error"):
            shown = " ".join(
                f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
                for name, value in values.items()
            )
            print(f"{self.node} {kind} {shown}", file=sys.stdout, flush=True)
