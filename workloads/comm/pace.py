"""Which step a worker makes next: all in step, or each at its own pace (workloads/unpaced)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from cluster.spec.documents.events import Exchanges
from cluster.spec.documents.membership import Place
from workloads.data.batches import Batch, Shard

if TYPE_CHECKING:
    from workloads.data.deal import Numbered
    from workloads.part import Part


@dataclass(frozen=True, slots=True)
class Turn:
    """One step of one worker."""

    at: int
    """Its place in the schedule of learning rates, from 0."""
    samples: int
    due: bool
    """Whether a round ends with it."""
    of_all: int | None = None
    """Which of all workers' steps it is, from 1, where they are not in step."""


class Pace(Protocol):
    @property
    def rounds(self) -> int | None:
        """Exchanges that this worker has taken part in; None: one for each that was due."""

    def begin(self, part: Part) -> None:
        """Once, when the state is that of the first step."""

    def batches(self, shard: Shard, epoch: int) -> Iterator[Batch]:
        """For the turns of an epoch."""

    def turns(self, place: Place) -> Iterator[Turn]:
        """From a place on, until the epoch is over for this worker."""

    def settle(self, epoch: int) -> Exchanges | None:
        """Call when the epoch is over for all nodes; what depended on timing in it."""

    def close(self) -> None:
        """Close connections of its own, all nodes together."""


class InStep:
    """Every worker makes the same number of steps. Implements Pace.

    A round ends after every `local_steps` steps, and with the epoch.
    """

    def __init__(self) -> None:
        self.rounds: int | None = None
        self._rows: Sequence[Tensor] = ()

    def begin(self, part: Part) -> None:
        self._part = part

    def batches(self, shard: Shard, epoch: int) -> Iterator[Batch]:
        self._rows = self._part.rows(epoch)
        return shard.batches(epoch, map(_not_empty, self._rows))

    def turns(self, place: Place) -> Iterator[Turn]:
        local_steps = self._part.spec.local_steps
        for index, row in enumerate(self._rows, start=1):
            is_due = (place.pending + index) % local_steps == 0 or index == len(self._rows)
            yield Turn(place.step + index - 1, len(row), is_due)

    def settle(self, epoch: int) -> None:
        """Nothing depended on timing."""

    def close(self) -> None:
        """It has no connections."""


def _not_empty(row: Tensor) -> Tensor:
    """Where there are fewer samples than workers, one without samples computes all the same: the
    others wait for its part in the exchange. Its gradients are 0."""
    return row if len(row) else row.new_zeros(1)


class FreeBatches:
    """Batches of a worker without a barrier.

    Its own, one after the other through its shards, whatever epoch the others are in: step k of a
    worker has the same batch in every run. Or, where nodes may be lost, that of its step's number.
    """

    def __init__(self) -> None:
        self._own: Iterator[Batch] | None = None
        self._part: Part | None = None
        self._dealt: Numbered | None = None
        self._number = 0

    def begin(self, part: Part) -> None:
        self._part = part

    def numbers(self, epoch: int) -> range | None:
        """Of the steps that are left in an epoch; None for all of them."""
        dealt = self._part.numbered(epoch) if self._part else None
        return None if dealt is None else dealt.numbers

    def of(self, shard: Shard, epoch: int) -> Iterator[Batch]:
        self._dealt = self._part.numbered(epoch) if self._part else None
        if (dealt := self._dealt) is not None:
            return shard.batches(epoch, (dealt.of(self._number) for _ in repeat(None)))
        if self._own is None:
            self._own = chain.from_iterable(map(shard.batches, count(1)))
        return self._own

    def take(self, number: int, batch_size: int) -> int:
        """The next batch is that of this step; its samples."""
        self._number = number
        return batch_size if self._dealt is None else len(self._dealt.of(number))
