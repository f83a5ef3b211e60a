"""What a strategy is told about the exchange it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.spec.experiment import Experiment
from cluster.spec.schedules import group_of


@dataclass(frozen=True, slots=True)
class Round:
    experiment: Experiment
    rank: int
    index: int

    @property
    def alone(self) -> bool:
        """Is there nobody to exchange with? Then nothing is sent, and nothing may change."""
        return self.experiment.nodes == 1 or len(self.members) == 1 < self.experiment.workers

    @property
    def members(self) -> tuple[int, ...]:
        """The workers that average with each other, this one among them."""
        spec = self.experiment
        if spec.passes is None or spec.schedule is None:
            return tuple(range(spec.workers))
        return group_of(self.rank, self.index, spec.workers, spec.passes, spec.schedule, spec.seed)

    @property
    def divisor(self) -> int:
        """By what the sum over all workers is divided: 1 where a sum was asked for."""
        return self.experiment.workers if self.experiment.reduce == "mean" else 1
