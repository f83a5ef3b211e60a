"""The server of async-server and quorum: a thread for each worker, and one rule for all.

A worker pushes and waits for its reply: the model, and how many steps to make next. The rule says
when a push is taken into the model and who is replied to. Where no steps are left, replies wait
until the last push of the epoch is in the model: all workers end an epoch with equal models, also
one that got no step in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from cluster.spec.experiment import Experiment
from cluster.spec.faults.checks import CONTINUE
from cluster.spec.schedules.unpaced import Kind
from workloads.unpaced.addresses import Addresses, Listener
from workloads.unpaced.frames import Connection, PeerLost
from workloads.unpaced.tickets import Tickets


class Push(NamedTuple):
    tensors: list[Tensor]
    steps: int


class Rule(Protocol):
    """What a strategy's server does with pushes. All calls hold the server's lock."""

    def begin(self, made: int) -> None:
        """An epoch begins, after so many steps of all workers."""

    def take(self, rank: int, push: Push) -> None:
        """A worker has pushed; the tensors are the rule's until the worker is replied to."""

    def patience_s(self, busy: int) -> float | None:
        """How long to wait before settle() may find something; None: until there is a push.

        `busy` workers have not pushed yet."""

    def settle(self, busy: int) -> dict[int, int]:
        """Take pushes into the model; staleness by rank of those that may have new steps."""

    def merged(self) -> list[int]:
        """Workers whose pushes have come into the model since the last call."""

    def leave(self, rank: int) -> None:
        """The epoch is over for this worker."""

    def sent(self, rank: int) -> None:
        """This worker gets the model as it is now."""


class Service:
    """Connections of all workers, and the epochs' steps."""

    def __init__(
        self,
        spec: Experiment,
        addresses: Addresses,
        model: Sequence[Tensor],
        rule: Rule,
        note_merged: Callable[[Sequence[int]], None] = lambda numbers: None,
    ) -> None:
        """`model` is what is sent: the rule changes it. `note_merged` is told which steps are in it
        now, by their numbers, before anybody is replied to."""
        self.spec, self._model, self._rule, self._note_merged = spec, model, rule, note_merged
        self._lock = threading.Condition()
        self._tickets = Tickets(spec)
        self._epoch = 0
        self._computing: set[int] = set()
        """Workers that hold steps, or have not begun the epoch."""
        self._waiting: set[int] = set()
        """Workers that have pushed and wait for a reply."""
        self._over: set[int] = set()
        """Of them, those that get no more steps in this epoch."""
        self._idle: set[int] = set()
        """Of them, those that got none at all."""
        self._granted: dict[int, range] = {}
        """The last steps of each worker."""
        self._replies: dict[int, tuple[range, int]] = {}
        self._inboxes: dict[int, list[Tensor]] = {}
        self._failure: BaseException | None = None
        self._listener = Listener(addresses, self._serve, self._fail)

    def run_epoch(self, epoch: int, numbers: range | None = None) -> None:
        """Until every worker has its last reply of the epoch; `numbers` of its steps, if not all
        of them."""
        with self._lock:
            self._epoch = epoch
            self._tickets.begin(epoch, numbers)
            self._computing = set(range(self.spec.workers))
            self._over.clear()
            self._idle.clear()
            self._rule.begin(self._tickets.made)
            self._lock.notify_all()
            while self._computing or self._waiting or self._replies:
                self._wait()
                if self._failure is not None:
                    raise self._failure
                self._release()

    def close(self) -> None:
        self._listener.expect_closing()
        dist.barrier()
        self._listener.close()

    def _wait(self) -> None:
        """For a push, or for the end of a grace window."""
        patience_s = self._rule.patience_s(len(self._computing))
        if patience_s is None or patience_s > 0:
            self._lock.wait(patience_s)

    def _release(self) -> None:
        """Reply to whom the rule lets go on, and to all when the epoch is over."""
        may_go_on = self._rule.settle(len(self._computing))
        if merged := self._rule.merged():
            self._note_merged([number for rank in merged for number in self._granted[rank]])
        has_left = False
        for rank in sorted((self._waiting & may_go_on.keys()) - self._over):
            steps = self._take(rank)
            if steps:
                self._reply(rank, steps, may_go_on[rank])
                self._computing.add(rank)
            else:
                self._over.add(rank)
                self._rule.leave(rank)
                has_left = True
        if has_left:
            self._release()  # others may have waited for it
        elif not self._computing and self._waiting - self._idle <= may_go_on.keys():
            for rank in sorted(self._waiting):
                self._reply(rank, range(0), may_go_on.get(rank, 0))

    def _take(self, rank: int) -> range:
        steps = self._tickets.take(rank, self.spec.local_steps)
        if steps:
            self._granted[rank] = steps
        return steps

    def _reply(self, rank: int, steps: range, staleness: int) -> None:
        self._waiting.discard(rank)
        self._replies[rank] = steps, staleness
        self._lock.notify_all()

    def _serve(self, connection: Connection) -> None:
        kind, number, epoch, _ = connection.receive_header(may_wait=True)
        if kind == Kind.BEGIN:
            connection.rank = number
            self._begin(connection, number, epoch)
            return
        rank = connection.rank
        assert rank is not None
        inbox = self._inboxes.setdefault(rank, [torch.empty_like(t) for t in self._model])
        if kind == Kind.PUSH:
            connection.receive_body(inbox)
        with self._lock:
            if kind == Kind.PUSH:
                self._rule.take(rank, Push(inbox, number))
            else:
                self._idle.add(rank)
                self._over.add(rank)
                self._rule.leave(rank)
            self._computing.discard(rank)
            self._waiting.add(rank)
            self._lock.notify_all()
            self._lock.wait_for(lambda: rank in self._replies)
            steps, staleness = self._replies[rank]
            for tensor, copy in zip(self._model, inbox, strict=True):
                copy.copy_(tensor)
            self._rule.sent(rank)
        connection.send(Kind.GRANT, len(steps), steps.start, staleness, body=inbox)
        with self._lock:
            del self._replies[rank]
            self._lock.notify_all()

    def _begin(self, connection: Connection, rank: int, epoch: int) -> None:
        with self._lock:
            self._lock.wait_for(lambda: self._epoch == epoch)
            steps = self._take(rank)
        connection.send(Kind.GRANT, len(steps), steps.start)

    def _fail(self, error: BaseException) -> None:
        if self.spec.on_failure == CONTINUE and isinstance(error, PeerLost):
            return  # the next generation is without it
        with self._lock:
            self._failure = error
            self._lock.notify_all()
