"""Steps of an epoch, granted to whoever asks: an epoch ends by samples seen in all."""

from collections.abc import Iterable

from cluster.spec.experiment import Experiment


class Tickets:
    """All steps of an epoch, each granted once. Not safe for threads.

    A worker that is late has one step reserved, so that each makes at least one in every epoch.
    """

    def __init__(self, spec: Experiment) -> None:
        self._workers, self._per_epoch = spec.workers, spec.workers * spec.steps_per_epoch
        self._made = 0
        self._late: set[int] = set()
        self._epoch = 0

    def begin(self, epoch: int) -> None:
        """The first call for an epoch begins it."""
        if epoch > self._epoch:
            self._epoch, self._late = epoch, set(range(self._workers))

    def take(self, rank: int, most: int) -> range:
        """Numbers of the next steps, from 1 through all epochs; empty where none is left for it."""
        reserved = len(self._late - {rank})
        count = max(0, min(most, self._epoch * self._per_epoch - self._made - reserved))
        if count:
            self._late.discard(rank)
        first = self._made + 1
        self._made += count
        return range(first, first + count)

    def late(self) -> Iterable[int]:
        """Workers that have not begun this epoch."""
        return self._late
