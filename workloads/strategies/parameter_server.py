"""parameter-server: a separate node holds the model; workers push gradients and pull parameters.

Bytes sent per round: M by each worker, N M by the server, which is the node after the last worker;
the server also receives N M, so its link is the bottleneck. Large models were first trained so
(DistBelief, Parameter Server). With --average parameters the server averages the workers' models
instead, as in federated learning.

Synchronous: the server replies when all workers have pushed. It receives, updates and sends
concurrently, chunk by chunk (workloads/comm/star.py). Its training loop is workloads/server.py.

New parameters are received in place of the gradients, not into the model: with --overlap, backward
is still reading the old parameters.
"""

from collections.abc import Callable

from torch import Tensor

from workloads.comm.round import Round
from workloads.comm.star import exchange_as_leaf, exchange_as_root

SERVER_UPDATES = True

Update = Callable[[slice, Tensor], Tensor]
"""Updates a slice of the model by its mean gradients, and returns the slice's new parameters."""


def exchange(flat: Tensor, round: Round) -> None:
    """The worker's side."""
    exchange_as_leaf(flat, round.experiment.workers)


def serve(flat: Tensor, round: Round, update: Update | None) -> None:
    """The server's side: reply with the updated parameters, or the mean without `update`."""

    def finish(where: slice, chunk: Tensor) -> None:
        chunk.div_(round.divisor)
        if update is not None:
            chunk.copy_(update(where, chunk))

    flat.zero_()
    exchange_as_root(flat, range(round.experiment.workers), finish)
