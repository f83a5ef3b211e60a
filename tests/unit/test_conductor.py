"""Which faults are done to nodes when, and when they are undone: with nodes that only take note."""

from __future__ import annotations

import pytest

from cluster.engine import EngineError
from cluster.faults import conductor
from cluster.faults.conductor import Conductor
from cluster.spec import clock
from cluster.spec.documents.event import Event
from cluster.spec.documents.events import Phase, Step
from cluster.spec.documents.fault_events import FaultBegun, FaultOver, Reached
from cluster.spec.documents.records import Counters
from cluster.spec.experiment import Experiment
from cluster.spec.links import Link

BEGAN_T = 1000.0


class Stage:
    """A run with faults, whose clock and nodes a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
        self.experiment = Experiment(**options)  # type: ignore[arg-type]
        self.done: list[tuple[object, ...]] = []
        self.events: list[Event] = []
        self.said: list[str] = []
        self.fails = False
        self.now = BEGAN_T
        monkeypatch.setattr(clock, "now", lambda: self.now)
        self.conductor = Conductor(self.experiment, self, self.events.append, self.said.append)

    def disturb(self, kind: str, rank: int) -> None:
        if self.fails:
            raise EngineError("node gone")
        self.done.append((str(kind), rank))

    def limit_cores(self, rank: int, cores: float | None) -> None:
        self.done.append(("cores", rank, cores))

    def change_link(self, rank: int, link: Link) -> None:
        self.done.append(("link", rank, str(link)))

    def begin(self) -> None:
        self.conductor.note(0, Phase(t=BEGAN_T, phase="train", epoch=1, counters=Counters()))

    def at(self, seconds: float) -> list[tuple[object, ...]]:
        """What is done when so many seconds of training have passed on the host's clock."""
        self.now, self.done = BEGAN_T + seconds, []
        self.conductor.tick()
        return self.done


def test_nothing_happens_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, fault="2:freeze@1s/10s")
    assert stage.at(100) == []
    stage.begin()
    assert stage.at(100) == [("stop", 2)]


def test_a_fault_begins_and_ends_in_emulated_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, fault="2:freeze@30s/10s", dilation=3.0)
    stage.begin()
    assert stage.at(89.9) == []
    assert stage.at(90) == [("stop", 2)]
    assert stage.at(119.9) == []
    assert stage.at(120) == [("resume", 2)]
    begun, over = stage.events
    assert isinstance(begun, FaultBegun)
    assert isinstance(over, FaultOver)
    assert (begun.fault, begun.node, begun.failure) == ("2:freeze@30s/10s", "node2", None)
    assert (begun.number, over.number) == (0, 0)


def test_links_and_cores_get_back_what_they_had(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = "1:throttle=5mbit@1s/1s,2:cpu=0.1@1s/1s,3:cpu=0.1@1s/1s"
    stage = Stage(monkeypatch, fault=faults, link="100mbit", straggler="3:0.5", dilation=1.0)
    stage.begin()
    assert stage.at(1) == [("link", 1, "5mbit"), ("cores", 2, 0.1), ("cores", 3, 0.1)]
    assert stage.at(2) == [("link", 1, "100mbit"), ("cores", 2, None), ("cores", 3, 0.5)]


def test_what_a_worker_did_to_itself_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, fault="1:kill@exchange3,2:freeze@step5,3:unplug@step5")
    stage.begin()
    numbers = {str(fault): number for number, fault in enumerate(stage.experiment.faults())}
    for text, rank in (("1:kill@exchange3", 1), ("2:freeze@step5", 2), ("3:unplug@step5", 3)):
        exchange = 3 if rank == 1 else None
        reached = Reached(t=BEGAN_T + rank, number=numbers[text], step=5, exchange=exchange)
        stage.conductor.note(rank, reached)
    assert stage.done == [("stop", 2), ("unplug", 3)]
    times = {event.node: event.t for event in stage.events if isinstance(event, FaultBegun)}
    assert times["node1"] == BEGAN_T + 1, "when it killed itself, not when the host read of it"
    assert not stage.conductor.may_return, "it was killed for good"


def test_a_node_cannot_tell_of_anothers_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, fault="1:unplug@step5")
    stage.begin()
    stage.conductor.note(2, Reached(t=BEGAN_T, number=0, step=5))
    assert stage.done == []


def test_all_is_undone_at_the_end_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, fault="1:unplug@1s,2:freeze@2s/100s,3:kill@50s")
    stage.begin()
    stage.at(3)
    assert [str(fault) for fault in stage.conductor.never_happened()] == ["3:kill@50s"]
    stage.done = []
    stage.conductor.close()
    assert stage.done == [("plug", 1), ("resume", 2)]


def test_what_cannot_be_done_is_recorded_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, fault="1:unplug@1s/1s")
    stage.begin()
    stage.fails = True
    stage.at(1)
    (event,) = stage.events
    assert isinstance(event, FaultBegun)
    assert event.failure == "node gone"
    assert "could not be done" in stage.said[0]
    stage.fails = False
    assert stage.at(2) == [], "there is nothing to undo"


def test_what_keeps_a_workers_state_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, fault="1:kill@1s/2s", on_failure="continue")
    stage.begin()
    assert stage.at(1) == [("kill-kept", 1)]
    assert not stage.conductor.may_return
    assert stage.at(3) == []
    assert stage.conductor.may_return == {1}


def test_a_storm_follows_its_draw_as_far_as_the_run_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, storm="freezes=5s,down=2s,seed=4", workers=4)
    stage.begin()
    first = [next(faults) for faults in [stage.experiment.faults()] for _ in range(3)]
    for fault in first:
        assert ("stop", fault.rank) in stage.at(fault.moment.at)
    assert stage.conductor.never_happened() == []


def test_steps_are_known_where_the_host_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, fault="1:unplug@1s/1s")
    stage.begin()
    stage.conductor.note(1, Step(step=7, step_s=0.1, data_s=0.0, compute_s=0.1, exchange_s=0.0))
    stage.at(1)
    (event,) = stage.events
    assert isinstance(event, FaultBegun)
    assert event.step == 8
    assert conductor.describe(event) == "fault 1:unplug@1s/1s: node1 in step 8"
