"""A run's background traffic: sent from when training begins until the run is over, and recorded.

The program that sends it is background_sender.py; what it sent is in nodes' readings at phase
boundaries (`background`).
"""

from collections.abc import Callable
from typing import Protocol

from cluster.spec.documents.event import Event
from cluster.spec.documents.events import Phase
from cluster.spec.documents.link_events import BackgroundChanged


class Nodes(Protocol):
    """Of cluster.engine.Cluster, what background traffic needs."""

    def send_background(self, is_on: bool) -> None: ...


class Background:
    """Of one run."""

    def __init__(self, flows: str | None, nodes: Nodes, record: Callable[[Event], None]) -> None:
        self._flows, self._nodes, self._record = flows, nodes, record
        self._is_on = False

    def note(self, event: Event) -> None:
        """An event of a node."""
        if self._flows and not self._is_on and isinstance(event, Phase) and event.phase == "train":
            self._turn(self._flows, True)

    def end(self) -> None:
        """Other runs may follow on these nodes."""
        if self._flows and self._is_on:
            self._turn(self._flows, False)

    def _turn(self, flows: str, is_on: bool) -> None:
        self._nodes.send_background(is_on)
        self._is_on = is_on
        self._record(BackgroundChanged(flows=flows, is_on=is_on))
