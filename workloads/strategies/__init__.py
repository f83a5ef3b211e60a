"""Communication strategies: one file each, one signature.

    exchange(flat: Tensor, round: Round) -> None

replaces a flat tensor (gradients or parameters), in place, by its mean over the workers that take
part (or by the sum, --reduce sum). It knows round and rank, and keeps no state but receive buffers.

The strategy NAME of cluster/spec/exchange/strategies.py is the file NAME.py here, with _ for -. A
file may also have `wrap(model, experiment)`, which returns a model that exchanges by itself during
backward, and SERVER_UPDATES = True, where a server returns new parameters in place of the
gradients.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from cluster.spec.exchange import strategies
from cluster.spec.experiment import Experiment
from cluster.spec.own_code import is_own
from workloads.comm.round import Exchange
from workloads.own.strategy import open_exchange


@dataclass(frozen=True)
class Strategy:
    exchange: Exchange
    wrap: Callable[[nn.Module, Experiment], nn.Module] | None
    server_updates: bool


def load(name: str) -> Strategy:
    """The strategy of this name, from its file."""
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    return Strategy(
        exchange=module.exchange,
        wrap=getattr(module, "wrap", None),
        server_updates=getattr(module, "SERVER_UPDATES", False),
    )


STRATEGIES: dict[str, Strategy] = {
    name: load(name) for name, facts in strategies.STRATEGIES.items() if not facts.unpaced
}
"""Those with a barrier; the others are in workloads/unpaced."""


def strategy_of(spec: Experiment) -> Strategy:
    """A run's strategy: one of the table, or that of the user's own file."""
    if is_own(spec.strategy):
        return Strategy(open_exchange(spec), wrap=None, server_updates=False)
    return STRATEGIES[spec.strategy]
