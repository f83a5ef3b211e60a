"""A worker's own faults: exactly at their step, inside their exchange, and once."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from cluster.spec.documents.event_reader import read_events
from cluster.spec.documents.fault_events import Reached
from cluster.spec.experiment import Experiment
from cluster.spec.faults.fault import Fault
from workloads.event_log import EventLog
from workloads.faults import MOST_SHARE, FaultPoints

EXCHANGE_BYTES = 100_000
PATIENCE_S = 30


class Wire:
    """Counts bytes like an interface."""

    def __init__(self) -> None:
        self.bytes = 7_000_000

    def exchange(self, moved: int) -> None:
        """In small pieces."""
        for _ in range(100):
            self.bytes += moved // 100


class Worker:
    def __init__(self, path: Path, fault: str, rank: int = 1) -> None:
        self.wire, self.acted = Wire(), threading.Event()
        self.faults: list[Fault] = []
        self.path = path
        experiment = Experiment(fault=fault, strategy="allreduce")
        log = EventLog(path, f"node{rank}")
        self.points = FaultPoints(experiment, rank, log, self._act, lambda: self.wire.bytes)

    def _act(self, fault: Fault) -> None:
        self.faults.append(fault)
        self.acted.set()

    @property
    def reached(self) -> list[Reached]:
        return [event for event in read_events(self.path) if isinstance(event, Reached)]


def test_a_fault_at_a_step_happens_at_its_begin_and_once(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "events", "1:kill@step3,2:kill@step2")
    for step in (1, 2, 3, 3, 4):
        worker.points.at_step(step)
    assert [str(fault) for fault in worker.faults] == ["1:kill@step3"]
    assert [(event.step, event.exchange) for event in worker.reached] == [(3, None)]


def test_a_fault_at_an_exchange_happens_while_its_bytes_move(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "events", "1:kill@exchange3")
    for exchange in (1, 2):
        worker.points.begin_exchange(exchange)
        worker.wire.exchange(EXCHANGE_BYTES)
        worker.points.end_exchange()
    worker.points.begin_exchange(3)
    assert not worker.acted.wait(0.05), "nothing has moved"
    worker.wire.exchange(round(MOST_SHARE * EXCHANGE_BYTES) + 100)
    assert worker.acted.wait(PATIENCE_S)
    worker.points.end_exchange()
    (event,) = worker.reached
    assert event.exchange == 3
    assert 0 < (event.moved_bytes or 0) <= EXCHANGE_BYTES


def test_an_exchange_that_ends_too_soon_leaves_it_to_the_next_one(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "events", "1:kill@exchange1")
    worker.points.begin_exchange(1)
    worker.points.end_exchange()
    time.sleep(0.05)
    worker.wire.exchange(EXCHANGE_BYTES)  # of others, between two exchanges
    time.sleep(0.05)
    assert worker.faults == []
    worker.points.begin_exchange(2)
    worker.wire.exchange(EXCHANGE_BYTES)
    assert worker.acted.wait(PATIENCE_S)
    assert worker.reached[0].exchange == 2


def test_a_process_that_is_started_again_does_not_repeat_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events"
    path.write_text(Reached(t=1.0, number=0, step=3).line())
    kept = EventLog(None, "node1")
    kept.path = path
    acted: list[Fault] = []
    points = FaultPoints(Experiment(fault="1:kill@step3"), 1, kept, acted.append)
    points.at_step(3)
    assert acted == []


def test_without_faults_nothing_is_read(tmp_path: Path) -> None:
    def refuse() -> int:
        raise AssertionError("counters are read")

    log = EventLog(tmp_path / "events", "node1")
    points = FaultPoints(Experiment(), 1, log, moved=refuse)
    points.at_step(1)
    points.begin_exchange(1)
    points.end_exchange()
