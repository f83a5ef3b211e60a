"""Steps of an epoch, granted to whoever asks: an epoch ends by samples seen in all."""

import time
from collections import Counter
from collections.abc import Callable

from cluster.spec.experiment import Experiment


class Tickets:
    """All steps of an epoch, each granted once. Not safe for threads.

    A worker that is late has one step reserved, so that each makes at least one in every epoch.
    Towards the end of an epoch nobody gets more than an equal part of what is left (guided
    self-scheduling, Polychronopoulos and Kuck 1987), nor more than it ends while the others do the
    rest: otherwise all would wait for a slow one. How long its steps take is seen from its last
    request. Where a quorum is of all workers, all make the same steps, if they can. Where few are
    left, since nodes were lost, a worker may get none in an epoch.
    """

    def __init__(self, spec: Experiment, now: Callable[[], float] = time.monotonic) -> None:
        self._workers, self._per_epoch = spec.workers, spec.workers * spec.steps_per_epoch
        self._now, self._is_quorum_of_all = now, spec.quorum == spec.workers
        self._epoch = 0
        self._numbers = range(0)
        """Of the epoch's steps, those that are not granted yet."""
        self._each: int | None = None
        """Steps of every worker, where all make the same."""
        self._late: set[int] = set()
        self._active: set[int] = set()
        self._granted: dict[int, tuple[float, int]] = {}
        """When a worker got its last steps, and how many."""
        self._step_s: dict[int, float] = {}
        self._own: Counter[int] = Counter()

    def begin(self, epoch: int, numbers: range | None = None) -> None:
        """The first call for an epoch begins it; `numbers` of its steps, if not all of them."""
        if epoch > self._epoch:
            self._epoch, last = epoch, epoch * self._per_epoch
            whole = range(last - self._per_epoch + 1, last + 1)
            self._numbers = whole if numbers is None else numbers
            is_even = len(self._numbers) % self._workers == 0
            can_be_alike = self._is_quorum_of_all and is_even
            self._each = len(self._numbers) // self._workers if can_be_alike else None
            self._late, self._active = set(range(self._workers)), set(range(self._workers))
            self._granted.clear()
            self._own.clear()

    @property
    def made(self) -> int:
        """Steps of all workers that were granted, or made before."""
        return self._numbers.start - 1

    def take(self, rank: int, most: int) -> range:
        """Numbers of the next steps, from 1 through all epochs; empty where the epoch is over for
        this worker."""
        now = self._now()
        if rank in self._granted:
            since, steps = self._granted[rank]
            self._step_s[rank] = (now - since) / steps
        left = len(self._numbers)
        if self._each is not None:
            count = min(most, self._each - self._own[rank])
        else:
            part = -(-left // len(self._active | {rank}))
            count = min(most, part, left - len(self._late - {rank}))
            if rank not in self._late:
                count = min(count, self._in_time(rank, left))
        if count < 1:
            self._active.discard(rank)
            self._late.discard(rank)
            return range(0)
        self._late.discard(rank)
        self._granted[rank] = now, count
        taken, self._numbers = self._numbers[:count], self._numbers[count:]
        self._own[rank] += count
        return taken

    def _in_time(self, rank: int, left: int) -> int:
        """How many steps it makes while the others do what is left, and one more each."""
        others = [self._step_s[r] for r in self._active - {rank} if r in self._step_s]
        own_s = self._step_s.get(rank)
        if not others or not own_s or not all(others):
            return left
        rest_s = left / sum(1 / step_s for step_s in others) + sum(others) / len(others)
        return int(rest_s / own_s)
