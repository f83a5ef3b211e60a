"""Carries out a run's link traces: changes that are due are made in place, and recorded.

What was in force at each time is in events/host.jsonl, with the time at which it really was.
"""

from collections.abc import Callable
from typing import Protocol

from cluster.spec import clock
from cluster.spec.documents.event import Event
from cluster.spec.documents.events import Phase
from cluster.spec.documents.link_events import LinkChanged
from cluster.spec.experiment import Experiment, node_name
from cluster.spec.link_trace import Place
from cluster.spec.links import Link
from cluster.spec.sites import path_name


class Nodes(Protocol):
    """Of cluster.engine.Cluster, what traces need."""

    def change_link(self, place: Place, link: Link) -> None: ...


class LinkChanges:
    """Of one run; `tick` is called some twenty times a second."""

    def __init__(
        self, experiment: Experiment, nodes: Nodes, record: Callable[[Event], None]
    ) -> None:
        self._nodes, self._record = nodes, record
        self._slowdown = experiment.slowdown
        self._traces = experiment.link_traces
        self._own: dict[Place, Link] = {}
        self._own.update(experiment.links.items())
        self._own.update(experiment.paths.items())
        self._done = dict.fromkeys(self._traces, 0)
        """Changes of each trace that were made."""
        self._began_t: float | None = None

    def note(self, event: Event) -> None:
        """An event of a node."""
        if self._traces and isinstance(event, Phase) and event.phase == "train":
            self._began_t = min(self._began_t or event.t, event.t)

    def tick(self) -> None:
        """Make the latest change of each trace that is due."""
        if self._began_t is None:
            return
        elapsed_s = (clock.now() - self._began_t) / self._slowdown
        for place, trace in self._traces.items():
            due = sum(change.at_s <= elapsed_s for change in trace)
            if due > self._done[place]:
                self._done[place] = due
                self._change(place, trace[due - 1].link(self._own[place]), trace[due - 1].at_s)

    def restore(self) -> None:
        """Give links their own rates again: other runs may follow on these nodes."""
        for place, done in self._done.items():
            if done:
                self._nodes.change_link(place, self._own[place])
                self._done[place] = 0

    def _change(self, place: Place, link: Link, due_s: float) -> None:
        name = node_name(place) if isinstance(place, int) else path_name(place)
        self._nodes.change_link(place, link)
        self._record(
            LinkChanged(place=name, due_s=due_s, up_mbit=link.rate_mbit, down_mbit=link.down_mbit)
        )
