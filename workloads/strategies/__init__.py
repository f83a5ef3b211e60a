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

from workloads.strategies import allreduce, pairwise, single
from workloads.strategies.round import Round

Exchange = Callable[[Tensor, Round], None]


@dataclass(frozen=True)
class Strategy:
    averages: Literal["gradients", "parameters"]
    exchange: Exchange


STRATEGIES: dict[str, Strategy] = {
    "single": Strategy("gradients", single.exchange),
    "allreduce": Strategy("gradients", allreduce.exchange),
    "pairwise": Strategy("parameters", pairwise.exchange),
}

__all__ = ["STRATEGIES", "Exchange", "Round", "Strategy"]
