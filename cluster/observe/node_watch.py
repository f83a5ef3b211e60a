"""Which nodes of a run have ended and which have failed, by the events they write."""

import time
from collections.abc import Mapping
from pathlib import Path

from cluster.spec.documents.events import End, Event, Failure, parse_event

POLL_S = 0.05


class EventTail:
    """Gives each whole line of a growing file once; a line without its end yet waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Event]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        end = text.rfind(b"\n") + 1
        self._offset += end
        return [parse_event(line) for line in text[:end].splitlines()]


class NodeWatch:
    """Follows the event files of some nodes (rank -> file)."""

    def __init__(self, files: Mapping[int, Path], grace_s: float) -> None:
        self._tails = {rank: EventTail(path) for rank, path in files.items()}
        self._grace_s = grace_s
        self._deadline: float | None = None
        self.ended: set[int] = set()
        self.failures: dict[int, Failure] = {}

    @property
    def remaining(self) -> list[int]:
        """Ranks of the nodes that have not ended."""
        return sorted(set(self._tails) - self.ended)

    def read(self) -> list[tuple[int, Event]]:
        """New events of all nodes, with the rank that wrote them."""
        events = [(rank, event) for rank, tail in self._tails.items() for event in tail.read()]
        for rank, event in events:
            if isinstance(event, End):
                self.ended.add(rank)
            elif isinstance(event, Failure):
                self.failures[rank] = event
        return events

    def is_overdue(self, is_node_lost: bool) -> bool:
        """Whether a node failed or was lost, and the others have had `grace_s` to report."""
        if self._deadline is None and (is_node_lost or self.failures):
            self._deadline = time.monotonic() + self._grace_s
        return self._deadline is not None and time.monotonic() > self._deadline
