"""Carries out a run's faults: which are due, what is done to nodes, and when it is undone.

Faults at a step or an exchange are due when the node itself says that it is there (`reached`): it
has then killed or stopped itself already, and the host does all else, some hundredths of a second
later. Faults after some seconds are the host's alone. What really happened, and when, is recorded.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from cluster.engine import EngineError
from cluster.faults import deed
from cluster.faults.deed import Deed
from cluster.spec import clock
from cluster.spec.documents.event import Event
from cluster.spec.documents.events import End, Phase, Step
from cluster.spec.documents.fault_events import FaultBegun, FaultOver, Reached
from cluster.spec.experiment import Experiment, node_name
from cluster.spec.faults.fault import Act, Clock, Fault
from cluster.spec.links import Link


class Nodes(Protocol):
    """Of cluster.engine.Cluster, what faults need."""

    def disturb(self, kind: str, rank: int) -> None: ...
    def limit_cores(self, rank: int, cores: float | None) -> None: ...
    def change_link(self, rank: int, link: Link) -> None: ...


@dataclass(frozen=True)
class Active:
    """A fault that has begun and is to be undone."""

    number: int
    fault: Fault
    until_t: float | None
    """Unix time; None at the end of the run."""


class Conductor:
    """Of one run; `tick` is called some twenty times a second."""

    def __init__(
        self,
        experiment: Experiment,
        nodes: Nodes,
        record: Callable[[Event], None],
        say: Callable[[str], None],
    ) -> None:
        self._experiment, self._nodes = experiment, nodes
        self._record, self._say = record, say
        numbered = enumerate(experiment.faults())
        given = [] if experiment.storm else list(numbered)  # a storm has no end
        self._waiting = {number: fault for number, fault in given if not _is_timed(fault)}
        """Due when the node says so, or when others are at its step."""
        self._coming = numbered if experiment.storm else iter([f for f in given if _is_timed(f[1])])
        self._next = next(self._coming, None)
        self._active: list[Active] = []
        self.may_return: set[int] = set()
        """Ranks of nodes that were killed or absent, and may be there now."""
        self._steps: dict[int, int] = {}
        self._ended: set[int] = set()
        self._began_t: float | None = None

    @property
    def has_faults(self) -> bool:
        return bool(self._experiment.fault or self._experiment.storm)

    def note(self, rank: int, event: Event) -> None:
        """An event of a node."""
        if isinstance(event, Phase) and event.phase == "train":
            self._began_t = min(self._began_t or event.t, event.t)
        elif isinstance(event, Step):
            self._steps[rank] = max(event.step, self._steps.get(rank, 0))
        elif isinstance(event, End):
            self._ended.add(rank)
        elif isinstance(event, Reached) and event.number in self._waiting:
            fault = self._waiting[event.number]
            if fault.rank == rank:
                del self._waiting[event.number]
                self._begin(event.number, fault, reached=event)

    def tick(self) -> None:
        """Begin and undo what is due."""
        now = clock.now()
        for active in [a for a in self._active if a.until_t is not None and a.until_t <= now]:
            self._undo(active)
        furthest = max(self._steps.values(), default=0)
        for number, fault in list(self._waiting.items()):
            if fault.act == Act.JOIN and furthest + 1 >= fault.moment.at:
                del self._waiting[number]
                self._begin(number, fault)
        while self._next is not None and self._is_due(self._next[1], now):
            number, fault = self._next
            self._next = next(self._coming, None)
            self._begin(number, fault)

    def close(self) -> None:
        """Undo what lasts until the run ends: other runs may follow on these nodes."""
        for active in list(self._active):
            self._undo(active)

    def never_happened(self) -> list[Fault]:
        """Faults that were asked for by --fault and that the run did not reach."""
        if self._experiment.fault is None:
            return []
        rest = [] if self._next is None else [self._next[1]]
        return [*self._waiting.values(), *rest, *(fault for _, fault in self._coming)]

    def _is_due(self, fault: Fault, now: float) -> bool:
        if self._began_t is None:
            return False
        return now >= self._began_t + fault.moment.at * self._experiment.slowdown

    def _begin(self, number: int, fault: Fault, reached: Reached | None = None) -> None:
        if fault.rank in self._ended:
            return
        act = deed.begin(fault, self._experiment)
        killed_itself = reached is not None and fault.act in (Act.KILL, Act.RESTART)
        failure = None if act is None or killed_itself else self._do(act)
        did_itself = reached is not None and fault.act in (Act.KILL, Act.RESTART, Act.FREEZE)
        event = FaultBegun(
            number=number,
            fault=str(fault),
            node=node_name(fault.rank),
            step=self._step_of(fault.rank) if reached is None else reached.step,
            exchange=None if reached is None else reached.exchange,
            failure=failure,
        )
        event = replace(event, t=reached.t) if reached and did_itself else event
        self._record(event)
        self._say(f"  {describe(event)}")
        if failure is not None:
            return
        if fault.act in (Act.RESTART, Act.JOIN):
            self._undo(Active(number, fault, event.t))
        elif not fault.ends_for_good:
            lasts_s = fault.lasts_s
            until_t = None if lasts_s is None else event.t + lasts_s * self._experiment.slowdown
            self._active.append(Active(number, fault, until_t))

    def _undo(self, active: Active) -> None:
        self._active = [other for other in self._active if other != active]
        if active.fault.comes_back:
            self.may_return.add(active.fault.rank)
        act = deed.end(active.fault, self._experiment)
        failure = None if act is None or active.fault.rank in self._ended else self._do(act)
        if failure is not None:
            self._say(f"  {node_name(active.fault.rank)}: {active.fault} was not undone: {failure}")
            return
        self._record(FaultOver(number=active.number, node=node_name(active.fault.rank)))

    def _do(self, act: Deed) -> str | None:
        """Why it could not be done; None where it was."""
        try:
            if act.link is not None:
                self._nodes.change_link(act.rank, act.link)
            elif act.kind == deed.Kind.LIMIT:
                self._nodes.limit_cores(act.rank, act.cores)
            else:
                self._nodes.disturb(act.kind, act.rank)
        except (EngineError, OSError) as error:
            return str(error)
        return None

    def _step_of(self, rank: int) -> int | None:
        """The step that it is in."""
        if rank >= self._experiment.workers:
            return max(self._steps.values(), default=0) + 1
        return self._steps.get(rank, 0) + 1 if self._began_t is not None else None


def _is_timed(fault: Fault) -> bool:
    return fault.moment.clock == Clock.SECONDS


def describe(event: FaultBegun) -> str:
    """For the person who waits."""
    where = f" in step {event.step}" if event.step else ""
    where = f" inside exchange {event.exchange}" if event.exchange else where
    done = "" if event.failure is None else f" could not be done: {event.failure}"
    return f"fault {event.fault}: {event.node}{where}{done}"
