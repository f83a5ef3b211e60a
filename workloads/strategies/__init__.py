"""How workers combine what they learned: one file per strategy, one signature, one table of names.

A strategy replaces a flat tensor, gradients or parameters, by the mean over the workers it involves (or
by the sum). `Round` says who asks and which round it is; nothing else is known, and nothing is remembered
but memory to receive into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from cluster.spec.experiment import Experiment
from workloads.strategies import (
    allgather,
    allreduce,
    ddp,
    gather_scatter,
    local_sgd,
    pairwise,
    parameter_server,
    reduce_broadcast,
    ring,
    single,
)
from workloads.strategies.round import Round

Exchange = Callable[[Tensor, Round], None]


@dataclass(frozen=True)
class Strategy:
    exchange: Exchange
    wrap: Callable[[nn.Module, Experiment], nn.Module] | None = None
    """Makes a model that exchanges by itself during backward; exchange() then has nothing to do."""
    server_updates: bool = False
    """Gradients come back as the new parameters."""


STRATEGIES: dict[str, Strategy] = {
    "single": Strategy(single.exchange),
    "allreduce": Strategy(allreduce.exchange),
    "ring": Strategy(ring.exchange),
    "allgather": Strategy(allgather.exchange),
    "gather-scatter": Strategy(gather_scatter.exchange),
    "reduce-broadcast": Strategy(reduce_broadcast.exchange),
    "parameter-server": Strategy(parameter_server.exchange, server_updates=True),
    "ddp": Strategy(ddp.exchange, wrap=ddp.wrap),
    "pairwise": Strategy(pairwise.exchange),
    "local-sgd": Strategy(local_sgd.exchange),
}

__all__ = ["STRATEGIES", "Exchange", "Round", "Strategy"]
