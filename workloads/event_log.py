"""One worker's event log: a JSON line per event, or a readable line where nothing is recorded."""

import sys
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any, TextIO, TypeVar

from cluster.spec.documents.events import Boundary, Epoch, Event, Failure, Result
from cluster.spec.documents.records import Counters
from workloads.counters.background import read_background
from workloads.counters.connections import read_connections
from workloads.counters.interfaces import read_interfaces, read_segments

HELD_UP_S = 0.005
"""Readings that took longer do not belong together: a launcher's control traffic goes on meanwhile.
With ten connections they take 0.3 ms."""
TRIES = 3
T = TypeVar("T")


def at_one_moment(read: Callable[[], T]) -> T:
    """What it read; where that took long, it is read again, and the fastest reading counts."""
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
        self, path: Path | None, node: str, workers_on_host: int = 1, *, aloud: bool = False
    ) -> None:
        """`workers_on_host` is how many workers count the same interfaces, this one included.

        `aloud` prints the readable lines, too, where events go to a file.
        """
        self.node, self.workers_on_host, self.aloud = node, workers_on_host, aloud
        self.path = path
        self.has_background = False
        """Whether others' traffic crosses the node's interface, too."""
        self.file: TextIO | None = None if path is None else path.open("a", buffering=1)

    def boundary(self, kind: type[Boundary], **values: Any) -> None:
        """An event at which bytes are booked, with the node's counters as they are now."""
        workers = self.workers_on_host
        connections, interfaces, segments, background = at_one_moment(
            lambda: (
                read_connections(),
                read_interfaces(workers),
                read_segments(),
                read_background() if self.has_background else None,
            )
        )
        self.write(
            kind(
                **values,
                counters=Counters(*(count // workers for count in interfaces.values())),
                retransmitted_bytes=sum(each.retransmitted_bytes for each in connections or ()),
                sent_segments=segments // workers,
                connections=None if connections is None else [each.counted for each in connections],
                background=background,
            )
        )

    def close(self) -> None:
        if self.file is not None:
            self.file.close()

    def write(self, event: Event) -> None:
        if self.file is not None:
            self.file.write(event.line())
        if (self.file is None or self.aloud) and isinstance(event, Epoch | Result | Failure):
            print(f"{self.node} {event.kind} {_readable(event)}", file=sys.stdout, flush=True)


def _readable(event: Event) -> str:
    return " ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in event.to_json().items()
        if name not in ("event", "t")
    )
