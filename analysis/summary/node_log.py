"""The events of one node, by kind. Pure."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.event_reader import LOG_BYTES, read_events
from cluster.spec.documents.events import Boundary, End, Epoch, Event, Hello, Idle, Phase, Step
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
    """By rank. `until_damage` takes the events before a line that is none."""
    return [NodeLog(_read(folder.events(rank), most, until_damage)) for rank in range(nodes)]


def _read(path: Path, most: int, until_damage: bool) -> list[Event]:
    events: list[Event] = []
    try:
        events.extend(read_events(path, most))
    except DocumentError:
        if not until_damage:
            raise
    return events
