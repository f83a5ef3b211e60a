"""How workers combine what they learned: one file per strategy, one signature, one table of names.

A strategy averages gradients before the update or parameters after it, and does so in place in one
flat tensor. `Round` says who asks and which round it is; nothing else is known, and nothing is
remembered but buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from workloads.strategies import (
    allgather,
    allreduce,
    gather_scatter,
    local_sgd,
    pairwise,
    reduce_broadcast,
    ring,
    single,
)
from workloads.strategies.round import Round

Exchange = Callable[[Tensor, Round], None]


@dataclass(frozen=True)
class Strategy:
    averages: Literal["gradients", "parameters"]
    exchange: Exchange


STRATEGIES: dict[str, Strategy] = {
    "single": Strategy("gradients", single.exchange),
    "allreduce": Strategy("gradients", allreduce.exchange),
    "ring": Strategy("gradients", ring.exchange),
    "allgather": Strategy("gradients", allgather.exchange),
    "gather-scatter": Strategy("gradients", gather_scatter.exchange),
    "reduce-broadcast": Strategy("gradients", reduce_broadcast.exchange),
    "pairwise": Strategy("parameters", pairwise.exchange),
    "local-sgd": Strategy("parameters", local_sgd.exchange),
}

__all__ = ["STRATEGIES", "Exchange", "Round", "Strategy"]
