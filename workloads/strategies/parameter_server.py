"""parameter-server: a node of its own holds the model; workers push gradients and pull parameters.

A worker sends M per round and receives M; the server, the node after the last worker, sends and receives
N M: its link decides. How large models were trained first (DistBelief, the Parameter Server), and what
federated learning does with --average parameters, where the server averages models instead.

Synchronous: the server answers when all workers have pushed. It receives, updates and sends at the same
time, chunk by chunk (workloads/comm/star.py); workloads/server.py is its training loop.

The parameters come back in the gradients' place, not into the model: with --overlap, backward is still
reading the old ones.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from workloads.comm.star import at_a_leaf, at_the_centre
from workloads.strategies.round import Round

Update = Callable[[slice, Tensor], Tensor]
"""Given where they lie and the mean gradients, update the model; the new parameters there."""


def exchange(flat: Tensor, round: Round) -> None:
    """A worker's half."""
    at_a_leaf(flat, round.experiment.workers)


def serve(flat: Tensor, round: Round, update: Update | None) -> None:
    """The server's half: `flat` is its memory for what arrives; without an update the mean goes back."""

    def finish(where: slice, chunk: Tensor) -> None:
        chunk.div_(round.divisor)
        if update is not None:
            chunk.copy_(update(where, chunk))

    flat.zero_()
    at_the_centre(flat, range(round.experiment.workers), finish)
