"""A worker's own faults: it tells when it is at their step or exchange, and kills or stops itself.

A fault at an exchange happens while bytes move: a thread reads the interface's counters during the
exchange, and acts when a share of what the exchange before has moved has crossed, drawn from the
seed. An exchange that ends before leaves the fault to the next one.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable

from cluster.spec.documents.event_reader import read_events
from cluster.spec.documents.fault_events import Reached
from cluster.spec.experiment import Experiment
from cluster.spec.faults.fault import Act, Clock, Fault
from workloads.counters.interfaces import read_interfaces
from workloads.event_log import EventLog

LOOK_S = 0.0002
LEAST_SHARE, MOST_SHARE = 0.05, 0.95
SIGNALS = {
    Act.KILL: signal.SIGKILL,
    Act.RESTART: signal.SIGKILL,
    Act.FREEZE: signal.SIGSTOP,
}
"""What a worker does to itself; all else is the host's."""


def moved_bytes() -> int:
    """Sent and received so far."""
    counters = read_interfaces()
    return counters.sent_bytes + counters.received_bytes


def signal_itself(fault: Fault) -> None:
    if fault.act in SIGNALS:
        os.kill(os.getpid(), SIGNALS[fault.act])


class FaultPoints:
    """Of one worker's training process. Without faults every call returns at once."""

    def __init__(
        self,
        spec: Experiment,
        rank: int,
        log: EventLog,
        act: Callable[[Fault], None] = signal_itself,
        moved: Callable[[], int] = moved_bytes,
    ) -> None:
        self._log, self._act, self._moved, self._seed = log, act, moved, spec.seed
        self._skips_steps = spec.is_unpaced
        mine: dict[int, Fault] = {}
        if spec.fault is not None:
            numbered = enumerate(spec.faults())
            mine = {k: f for k, f in numbered if f.rank == rank and f.act != Act.JOIN}
        done = _reached_before(log) if mine else set()
        left = {number: fault for number, fault in mine.items() if number not in done}
        self._steps = {k: f for k, f in left.items() if f.moment.clock == Clock.STEP}
        self._exchanges = {k: f for k, f in left.items() if f.moment.clock == Clock.EXCHANGE}
        self._step = 0
        self._usual_bytes = 0
        self._began_bytes = 0
        self._watch: _ExchangeWatch | None = None

    def at_step(self, step: int) -> None:
        """The worker begins this step, counted from 1.

        Without a barrier it goes on with the furthest worker's number after a change of members.
        """
        self._step = step
        for number, fault in list(self._steps.items()):
            if fault.moment.at == step or (self._skips_steps and fault.moment.at < step):
                del self._steps[number]
                self._log.write(Reached(number=number, step=step))
                self._act(fault)

    def begin_exchange(self, exchange: int) -> None:
        """Bytes may move from now on; exchanges are counted from 1."""
        if not self._exchanges:
            return
        self._began_bytes = self._moved()
        due = [k for k, fault in self._exchanges.items() if fault.moment.at <= exchange]
        if due:
            number = min(due, key=lambda k: self._exchanges[k].moment.at)
            chance = random.Random(f"{self._seed} fault {self._exchanges[number]}")
            share = chance.uniform(LEAST_SHARE, MOST_SHARE)
            threshold = max(1, round(share * self._usual_bytes))

            def fire(moved: int) -> None:
                fault = self._exchanges.pop(number)
                reached = Reached(
                    number=number, step=self._step, exchange=exchange, moved_bytes=moved
                )
                self._log.write(reached)
                self._act(fault)

            self._watch = _ExchangeWatch(self._began_bytes, threshold, fire, self._moved)

    def end_exchange(self) -> None:
        """Nothing moves any more."""
        if self._watch is not None:
            self._watch.end()
            self._watch = None
        if self._exchanges:
            self._usual_bytes = self._moved() - self._began_bytes


class _ExchangeWatch:
    """A thread that fires once, when so many bytes have moved; never after `end`."""

    def __init__(
        self,
        began_bytes: int,
        threshold_bytes: int,
        fire: Callable[[int], None],
        moved: Callable[[], int],
    ) -> None:
        self._began, self._threshold = began_bytes, threshold_bytes
        self._fire, self._moved = fire, moved
        self._lock, self._is_over = threading.Lock(), False
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        with self._lock:
            self._is_over = True
        self._thread.join()

    def _look(self) -> None:
        while True:
            with self._lock:
                if self._is_over:
                    return
                moved = self._moved() - self._began
                if moved >= self._threshold:
                    self._fire(moved)
                    return
            time.sleep(LOOK_S)


def _reached_before(log: EventLog) -> set[int]:
    """Faults that have happened to a training process of this node before."""
    if log.path is None:
        return set()
    return {event.number for event in read_events(log.path) if isinstance(event, Reached)}
