"""The events of one node, by kind. Pure."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.event_reader import LOG_BYTES, read_events
from cluster.spec.documents.events import (
    Boundary,
    End,
    Epoch,
    Event,
    Hello,
    Idle,
    Phase,
    Step,
    VirtualWorker,
)
from cluster.spec.documents.records import Counters
from cluster.spec.documents.run_folder import RunFolder

E = TypeVar("E", bound=Event)
Span = tuple[Boundary, Boundary]


@dataclass(frozen=True)
class NodeLog:
    events: Sequence[Event]

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def first(self, kind: type[E]) -> E | None:
        return next((event for event in self.events if isinstance(event, kind)), None)

    @cached_property
    def hello(self) -> Hello | None:
        return self.first(Hello)

    @cached_property
    def steps(self) -> list[Step]:
        return self.all(Step)

    @cached_property
    def epochs(self) -> list[Epoch]:
        return self.all(Epoch)

    @cached_property
    def phase_intervals(self) -> list[tuple[Phase, Boundary]]:
        """The events that began and ended each interval in a phase, in order."""
        boundaries = [event for event in self.events if isinstance(event, Phase | End)]
        return [
            (start, end)
            for start, end in itertools.pairwise(boundaries)
            if isinstance(start, Phase)
        ]

    @cached_property
    def background(self) -> Counters:
        """Background traffic on the node's interface from its first boundary to its last."""
        seen = [event.background for event in self.all(Boundary) if event.background is not None]
        return seen[-1] - seen[0] if seen else Counters()

    @property
    def open_phase(self) -> Phase | None:
        """The phase in which the node was lost; None where it has ended."""
        boundaries = [event for event in self.events if isinstance(event, Phase | End)]
        last = boundaries[-1] if boundaries else None
        return last if isinstance(last, Phase) else None

    def spans(self, phase: str) -> list[Span]:
        """The intervals in one phase."""
        return [(start, end) for start, end in self.phase_intervals if start.phase == phase]

    @cached_property
    def idle_spans(self) -> list[Span]:
        """The pause in which nothing is exchanged; empty where the launcher makes none."""
        idle = self.all(Idle)
        return [(idle[0], idle[1])] if len(idle) == 2 else []

    def seconds(self, phase: str) -> list[float]:
        """How long each interval in a phase was."""
        return [end.t - start.t for start, end in self.spans(phase)]


def read_logs(
    folder: RunFolder, nodes: int, most: int = LOG_BYTES, *, until_damage: bool = False
) -> list[NodeLog]:
    """By rank, with counters that have no background traffic. `until_damage` takes the events
    before a line that is none."""
    found = (_read(folder.events(rank), most, until_damage) for rank in range(nodes))
    return [NodeLog(list(map(_own, events))) for events in found]


def _own(event: Event) -> Event:
    """A boundary with the workers' own bytes; what it had of others stays in `background`."""
    if not isinstance(event, Boundary) or event.background is None:
        return event
    return replace(event, counters=event.own)


def by_virtual_worker(log: NodeLog, ranks: int) -> list[NodeLog]:
    """The node's log as each worker's own: what has no worker's rank is of all of them."""
    shared, own = dict[int, Event](), [dict[int, Event]() for _ in range(ranks)]
    for place, event in enumerate(log.events):
        worker = getattr(event, "worker", None)
        if worker is None:
            shared[place] = event
        elif worker < ranks:
            own[worker][place] = event
    return [
        NodeLog([event for _, event in sorted({**shared, **mine}.items())])
        for mine in (_own_hello(rank, shared, mine) for rank, mine in enumerate(own))
    ]


def _own_hello(rank: int, shared: dict[int, Event], own: dict[int, Event]) -> dict[int, Event]:
    """With a worker's hello: worker 0's, but for its rank and its labels."""
    found = dict(own)
    for place, event in shared.items():
        if isinstance(event, Hello) and rank:
            labels = next((e.labels for e in own.values() if isinstance(e, VirtualWorker)), None)
            found[place] = replace(event, rank=rank, labels=labels)
    return found


def _read(path: Path, most: int, until_damage: bool) -> list[Event]:
    events: list[Event] = []
    try:
        events.extend(read_events(path, most))
    except DocumentError:
        if not until_damage:
            raise
    return events
