"""What a strategy is told about the exchange it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.spec import Experiment


@dataclass(frozen=True, slots=True)
class Round:
    experiment: Experiment
    rank: int
    index: int
