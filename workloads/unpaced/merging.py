"""quorum's rule: changes are merged when Q workers have arrived and a grace window has passed.

    x  <-  x + sum over those that arrived of n_i d_i / sum of n_i

n_i are the samples that worker i trained on, d_i is the change of its parameters since it got them.
A late worker is merged with the round in which it arrives: its change is of an older model
(FedBuff, Nguyen et al. 2022). With Q = N nobody is late, and this is local-sgd. The grace window is
a share of the time that the round took until the quorum was there.
"""

import time
from collections import Counter

from torch import Tensor

from workloads.unpaced.serving import Push


class Merging:
    """Implements serving.Rule."""

    def __init__(self, model: list[Tensor], quorum: int, grace: float) -> None:
        self._model, self._quorum, self._grace = model, quorum, grace
        self._arrived: dict[int, Push] = {}
        self._staleness: dict[int, int] = {}
        self._merges = 0
        self._had: Counter[int] = Counter()
        """Merges in the model that each worker got last."""
        self._began = self._complete_at = 0.0
        """When the round began, and when its quorum was there; 0 before."""
        self._new: list[int] = []

    def begin(self, made: int) -> None:
        self._staleness.clear()
        self._began = time.monotonic()

    def take(self, rank: int, push: Push) -> None:
        self._arrived[rank] = push
        self._staleness.pop(rank, None)

    def patience_s(self, busy: int) -> float | None:
        if not self._is_complete(busy):
            return None
        if not busy:
            return 0.0
        now = time.monotonic()
        self._complete_at = self._complete_at or now
        window_s = self._grace * (self._complete_at - self._began)
        return max(0.0, self._complete_at + window_s - now)

    def settle(self, busy: int) -> dict[int, int]:
        if self.patience_s(busy) == 0:
            self._merge()
        return self._staleness

    def merged(self) -> list[int]:
        found, self._new = self._new, []
        return found

    def leave(self, rank: int) -> None:
        """Who computes is told with every call."""

    def sent(self, rank: int) -> None:
        self._had[rank] = self._merges

    def _is_complete(self, busy: int) -> bool:
        """Whether the quorum is there, or all who may still come in this epoch."""
        arrived = len(self._arrived)
        return arrived > 0 and arrived >= min(self._quorum, arrived + busy)

    def _merge(self) -> None:
        """In the order of ranks, so that with Q = N the result depends on no timing."""
        total = sum(push.steps for push in self._arrived.values())
        for rank, push in sorted(self._arrived.items()):
            for tensor, change in zip(self._model, push.tensors, strict=True):
                tensor.add_(change, alpha=push.steps / total)
            self._staleness[rank] = self._merges - self._had[rank]
        self._merges += 1
        self._new += sorted(self._arrived)
        self._arrived.clear()
        self._began, self._complete_at = time.monotonic(), 0.0
