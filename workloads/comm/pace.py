"""Which step a worker makes next: all in step, or each at its own pace (workloads/unpaced)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from cluster.spec.documents.events import Exchanges
from cluster.spec.documents.membership import Place
from workloads.data.batches import Batch, Shard

if TYPE_CHECKING:
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

    def __init__(self, part: Part) -> None:
        self.rounds: int | None = None
        self._part = part
        self._rows: Sequence[Tensor] = ()

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


class OwnBatches:
    """A worker's batches, one after the other through its shards, whatever epoch the others are in:
    step k of a worker has the same batch in every run."""

    def __init__(self) -> None:
        self._batches: Iterator[Batch] | None = None

    def of(self, shard: Shard) -> Iterator[Batch]:
        if self._batches is None:
            self._batches = chain.from_iterable(map(shard.batches, count(1)))
        return self._batches
