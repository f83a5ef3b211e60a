"""The round of a strategy: whose exchange it is, and with whom."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from cluster.spec.experiment import Experiment
from cluster.spec.schedules.pairwise import group_of


@dataclass(frozen=True, slots=True)
class Round:
    """One exchange, as one worker sees it."""

    experiment: Experiment
    rank: int
    index: int
    """Rounds of a run are numbered from 0; schedules choose groups by it."""
    part: int = 0
    """Which tensor of the round: a bucket's number; below 0 buffers."""

    @property
    def alone(self) -> bool:
        """True where this worker has nobody to exchange with: nothing is sent or changed."""
        return self.experiment.nodes == 1 or len(self.members) == 1 < self.experiment.workers

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks of the workers that average with each other, this one included."""
        spec = self.experiment
        if spec.passes is None or spec.schedule is None:
            return tuple(range(spec.workers))
        return group_of(self.rank, self.index, spec.workers, spec.passes, spec.schedule, spec.seed)

    @property
    def divisor(self) -> int:
        """Divides the sum over all workers: N for a mean, 1 for --reduce sum."""
        return self.experiment.workers if self.experiment.reduce == "mean" else 1


Exchange = Callable[[Tensor, Round], None]
"""Replaces a flat tensor, in place, by its mean (or sum) over the workers of a round."""


@runtime_checkable
class Remembering(Protocol):
    """An exchange, or a part of one, with a memory from round to round."""

    def tensors(self) -> dict[str, Tensor]:
        """The memory by name, itself and not a copy, whole from the beginning."""


def tensors_of(exchange: object) -> dict[str, Tensor]:
    """Its memory; empty for a plain function."""
    return exchange.tensors() if isinstance(exchange, Remembering) else {}
