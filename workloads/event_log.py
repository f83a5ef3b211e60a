"""One worker's event log: a JSON line per event, or a readable line where nothing is recorded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

from cluster.records import event
from workloads.connections import read_connections
from workloads.own_counters import read_interfaces, read_segments


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
        connections = read_connections()
        self.write(
            kind,
            **values,
            counters=[n // self.sharers for n in read_interfaces(self.sharers).values()],
            repeated=sum(one.repeated_bytes for one in connections or ()),
            segments=read_segments() // self.sharers,
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
