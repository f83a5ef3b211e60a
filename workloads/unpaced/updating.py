"""async-server's rule: every gradient updates the model as it arrives.

A worker may be at most S rounds ahead of the slowest (--staleness S): it waits for its reply until
the slowest has caught up. So parameters lack at most what the others did in S + 1 rounds (stale
synchronous parallel, Ho et al. 2013). Without a bound nobody waits (Downpour SGD, Dean et al.
2012). Rounds are counted within an epoch.
"""

import math
from collections import Counter
from collections.abc import Callable

from torch import Tensor

from workloads.unpaced.serving import Push

Update = Callable[[list[Tensor], int], None]
"""Updates the model by gradients; the number of steps of all workers that are in it then."""


class Updating:
    """Implements serving.Rule."""

    def __init__(self, workers: int, bound: int | None, update: Update) -> None:
        self._bound = math.inf if bound is None else bound
        self._update, self._workers = update, workers
        self._rounds: Counter[int] = Counter()
        """Of the workers for which the epoch is not over."""
        self._left: dict[int, int] = {}
        """Staleness of the others."""
        self._steps = 0
        self._new: list[int] = []

    def begin(self, made: int) -> None:
        self._steps = made
        self._rounds = Counter(dict.fromkeys(range(self._workers), 0))
        self._left.clear()

    def take(self, rank: int, push: Push) -> None:
        self._steps += push.steps
        self._update(push.tensors, self._steps)
        self._rounds[rank] += 1
        self._new.append(rank)

    def merged(self) -> list[int]:
        found, self._new = self._new, []
        return found

    def patience_s(self, busy: int) -> None:
        """Nothing changes without a push."""

    def settle(self, busy: int) -> dict[int, int]:
        slowest = min(self._rounds.values(), default=0)
        ahead = {rank: rounds - slowest for rank, rounds in self._rounds.items()}
        return {rank: by for rank, by in ahead.items() if by <= self._bound} | self._left

    def leave(self, rank: int) -> None:
        if rank in self._rounds:
            self._left[rank] = self._rounds[rank] - min(self._rounds.values())
            del self._rounds[rank]

    def sent(self, rank: int) -> None:
        """Its staleness was told when it was let go on."""
