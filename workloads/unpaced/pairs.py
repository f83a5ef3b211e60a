"""async-pairwise: a worker averages its parameters with whoever is free, and trains on meanwhile.

AD-PSGD (Lian et al. 2018). Every H steps a worker asks others in random order until one is free;
both send each other their parameters, and each moves half-way to what the other sent:

    x_i  <-  x_i + (x_j' - x_i') / 2        x': as they were sent

Exchanges have threads of their own. What the worker trained meanwhile stays: a change of parameters
is added, not overwritten, and both changes are the same number with opposite signs, so that the
mean of all models stays as it is. A worker is in one exchange at a time, and says so to others at
once: nobody waits for a worker that waits, so there is no deadlock. A worker that was asked since
its last round does not ask. With --on-failure continue a partner that is gone is skipped.

A step computes its gradient with the parameters of its begin; averages that arrive during a step
are added at its end.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import torch
import torch.distributed as dist

from cluster.spec.documents.events import Exchanges
from cluster.spec.documents.membership import Place
from cluster.spec.experiment import Experiment
from cluster.spec.faults.checks import CONTINUE
from cluster.spec.schedules.unpaced import Kind
from workloads.comm.flat import FlatModel
from workloads.comm.pace import FreeBatches, Turn
from workloads.data.batches import Batch, Shard
from workloads.part import Part
from workloads.unpaced.addresses import Addresses, Listener
from workloads.unpaced.frames import Connection, PeerLost
from workloads.unpaced.pace import Record
from workloads.unpaced.shared_state import SharedState
from workloads.unpaced.tickets import Tickets


def open_exchanger(
    spec: Experiment, rank: int, flat: FlatModel, addresses: Addresses
) -> PairAveraging:
    return PairAveraging(spec, rank, flat, addresses)


class PairAveraging:
    """Implements UnpacedExchanger."""

    def __init__(self, spec: Experiment, rank: int, flat: FlatModel, addresses: Addresses) -> None:
        self.spec, self.rank = spec, rank
        self.rounds = 0
        self.steps = 0
        tensors = [part.parameters for part in flat.parts]
        tensors += flat.buffers if spec.buffers == "average" else []
        self._state = SharedState(tensors)
        self._own, self._other = ([torch.empty_like(t) for t in tensors] for _ in range(2))
        self._addresses, self._batches = addresses, FreeBatches()
        self._goes_on = spec.on_failure == CONTINUE
        self._gone: set[int] = set()
        """Partners that do not answer any more; known to the thread that asks."""
        self._lock = threading.Condition()
        """Guards all that follows but connections, which belong to one thread each."""
        self._record = Record()
        self._tickets = Tickets(spec)
        self._is_free, self._is_asking, self._was_asked = True, False, False
        self._order = random.Random(f"{spec.seed} {rank}")
        self._due: SimpleQueue[None] = SimpleQueue()
        self._failure: BaseException | None = None
        self._connections: dict[int, Connection] = {}
        self._to_counter: Connection | None = None
        self._listener = Listener(addresses, self._serve, self._fail)
        threading.Thread(target=self._ask_when_due, name="ask", daemon=True).start()

    # ------------------------------------------------------------------------------------ the pace

    def begin(self, part: Part) -> None:
        self._batches.begin(part)
        self._state.merge()

    def batches(self, shard: Shard, epoch: int) -> Iterator[Batch]:
        return self._batches.of(shard, epoch)

    def turns(self, place: Place) -> Iterator[Turn]:
        """Every step is due: averages are added at its end."""
        while number := self._claim(place.epoch):
            self.steps += 1
            at = (number - 1) // self.spec.workers
            samples = self._batches.take(number, self.spec.batch_size)
            yield Turn(at, samples, due=True, of_all=number)
        with self._lock:  # its own exchange; others may still ask
            self._lock.wait_for(lambda: self._failure or not self._is_asking)
        self._check()

    def settle(self, epoch: int) -> Exchanges:
        with self._lock:
            self._state.merge()
            found, self._record = self._record, Record()
        self.rounds += found.rounds
        return found.event(epoch)

    def close(self) -> None:
        self._listener.expect_closing()
        if dist.is_initialized():
            dist.barrier()
        for connection in self._connections.values():
            connection.close()
        if self._to_counter is not None:
            self._to_counter.close()
        self._listener.close()

    def _claim(self, epoch: int) -> int:
        """The number of the next step of all workers; 0 where the epoch is over."""
        self._check()
        counter = self.spec.counter_rank
        if counter == self.rank:
            with self._lock:
                return self._take(self.rank, epoch)
        if self._to_counter is None:
            self._to_counter = self._addresses.connect(counter)
        self._record.controls[counter] += 1
        return self._to_counter.ask(Kind.CLAIM, self.rank, epoch)[1]

    def _take(self, rank: int, epoch: int) -> int:
        self._tickets.begin(epoch, self._batches.numbers(epoch))
        return next(iter(self._tickets.take(rank, 1)), 0)

    # -------------------------------------------------------------------------------- the exchange

    def begin_round(self, index: int, steps: int) -> None:
        """No-op: nothing is exchanged during backward."""

    def finish_round(self) -> None:
        """A step has ended: add the averages that came, and every H steps ask for another."""
        with self._lock:
            self._record.steps += 1
            self._state.merge()
            if self.steps % self.spec.local_steps == 0:
                self._begin_asking()
        self._check()

    def _begin_asking(self) -> None:
        if self._was_asked:
            self._was_asked = False
        elif not self._is_free:
            self._record.skipped += 1
        else:
            self._is_free, self._is_asking = False, True
            self._due.put(None)

    def _ask_when_due(self) -> None:
        """A thread: one exchange after the other."""
        try:
            while True:
                self._due.get()
                others = [rank for rank in range(self.spec.workers) if rank != self.rank]
                self._order.shuffle(others)
                done = any(map(self._is_averaged_with, others))  # up to the first that is free
                with self._lock:
                    self._record.skipped += not done
                    self._is_free, self._is_asking = True, False
                    self._lock.notify_all()
        except BaseException as error:
            self._fail(error)

    def _is_averaged_with(self, partner: int) -> bool:
        """False where it is busy or gone."""
        if partner in self._gone:
            return False
        try:
            return self._average_with(partner)
        except PeerLost:
            if not self._goes_on:
                raise
            self._gone.add(partner)
            return False

    def _average_with(self, partner: int) -> bool:
        """False where it is busy."""
        if partner not in self._connections:
            self._connections[partner] = self._addresses.connect(partner)
        connection = self._connections[partner]
        if connection.ask(Kind.ASK, self.rank)[0] == Kind.BUSY:
            with self._lock:
                self._record.refused[partner] += 1
            return False
        began = self._take_snapshot()
        connection.swap(self._own, self._other)
        connection.receive_header()  # DONE: the partner has moved, too
        with self._lock:
            self._record.exchanges[partner] += 1
            self._move(began)
        return True

    def _serve(self, connection: Connection) -> None:
        """Answer one frame of another worker."""
        kind, rank, epoch, _ = connection.receive_header(may_wait=True)
        connection.rank = rank
        if kind == Kind.CLAIM:
            with self._lock:
                number = self._take(rank, epoch)
            connection.send(Kind.GRANT, number)
            return
        with self._lock:
            is_free, self._is_free = self._is_free, False
        if not is_free:
            connection.send(Kind.BUSY)
            return
        try:
            began = self._take_snapshot()
            connection.swap_back(self._own, self._other)
            with self._lock:
                self._move(began)
                self._was_asked = True
        finally:
            with self._lock:
                self._is_free = True
        connection.send(Kind.DONE)

    def _take_snapshot(self) -> int:
        """What is sent, which waits for no step to end; the step at which it was taken."""
        with self._lock:
            self._state.snapshot(self._own)
            return self.steps

    def _move(self, began: int) -> None:
        self._state.move(self._own, self._other)
        self._record.note_round(self.steps - began)

    def _fail(self, error: BaseException) -> None:
        if self._goes_on and isinstance(error, PeerLost):
            return  # the next generation is without it
        with self._lock:
            self._failure = error
            self._lock.notify_all()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
