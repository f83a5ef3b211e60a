"""From wall time, which nodes and collectors record, to emulated time, which is reported. Pure.

With time dilation K a cluster runs K times slower than it would by itself. Time is measured from
the run's first event, which keeps its date. CPU seconds are the same in both: a node with 1/K of a
core takes K times as long for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from cluster.spec.documents.events import Event, Step
from cluster.spec.documents.records import Sample

E = TypeVar("E", bound=Event)
DURATIONS = ("step_s", "data_s", "compute_s", "exchange_s", "wait_s", "throttled_s")
"""Of a step, in wall time; cpu_s is CPU time."""


@dataclass(frozen=True)
class EmulatedTime:
    dilation: float
    began: float
    """Unix time of the run's first event."""

    def at(self, t: float) -> float:
        return self.began + (t - self.began) / self.dilation

    def event(self, event: E) -> E:
        if not isinstance(event, Step):
            return replace(event, t=self.at(event.t))
        values = {name: getattr(event, name) for name in DURATIONS}
        known = {name: value / self.dilation for name, value in values.items() if value is not None}
        ready_t = None if event.ready_t is None else self.at(event.ready_t)
        return replace(event, t=self.at(event.t), ready_t=ready_t, **known)

    def samples(self, samples: Sequence[Sample]) -> list[Sample]:
        return [replace(sample, t=self.at(sample.t)) for sample in samples]
