"""reduce-broadcast: a binomial tree reduces gradients to a root and broadcasts the mean back.

Bytes sent per round: every worker but the root sends M up the tree; down the tree every worker
sends M to each of its children, the root to log2 N of them. 2(N-1)/N M on average, and most by the
root. MPI programs without all-reduce do this, and parameter averaging on Spark.

The parent of a worker is its rank without the lowest binary 1. Up and down, chunk by chunk: while
the mean of one chunk goes down, the sums of the next ones go up (workloads/comm/star.py), so that
a round takes the root's log2 N M over its rate. Grouped messages (NCCL) go up and down whole.
"""

from collections.abc import Sequence

from torch import Tensor

from cluster.spec.schedules.messages import children_of, parent_of
from workloads.comm.messages import messages_are_grouped, reused_buffer, sendrecv
from workloads.comm.round import Round
from workloads.comm.star import exchange_as_leaf, exchange_as_relay, exchange_as_root

ROOT = 0


def exchange(flat: Tensor, round: Round) -> None:
    workers, rank = round.experiment.workers, round.rank
    if workers == 1:
        return
    parent, children = parent_of(rank), children_of(rank, workers)
    if messages_are_grouped():
        _exchange_whole(flat, round, parent, children)
    elif rank == ROOT:
        exchange_as_root(flat, children, lambda _, chunk: chunk.div_(round.divisor))
    elif children:
        exchange_as_relay(flat, parent, children)
    else:
        exchange_as_leaf(flat, parent)


def _exchange_whole(flat: Tensor, round: Round, parent: int, children: Sequence[int]) -> None:
    received = reused_buffer("reduce-broadcast", flat.numel(), flat.dtype, flat.device)
    for child in children:
        sendrecv([], [(received, child)])
        flat.add_(received)
    if round.rank == ROOT:
        flat.div_(round.divisor)
    else:
        sendrecv([(flat, parent)], [])
        sendrecv([], [(flat, parent)])
    sendrecv([(flat, child) for child in reversed(children)], [])
