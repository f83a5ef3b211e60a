"""Which nodes of a run have ended and which have failed, by the events they write."""

import time
from collections.abc import Mapping
from pathlib import Path

from cluster.observe.event_tail import EventTail
from cluster.spec.documents.events import End, Event, Failure

POLL_S = 0.05


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
