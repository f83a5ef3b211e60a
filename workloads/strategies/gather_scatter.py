"""gather-scatter: the root gathers all gradients, averages them and sends the mean back.

Bytes sent per round: M by each leaf, (N-1) M by the root, 2(N-1)/N M on average. All traffic passes
the root's link: a slow root slows every worker, a slow leaf much less. Introductory courses write
it with gather and scatter.

The root receives, adds and sends concurrently (workloads/comm/star.py): a round takes (N-1) M over
the root's rate, not twice that.
"""

from torch import Tensor

from workloads.comm.round import Round
from workloads.comm.star import exchange_as_leaf, exchange_as_root

ROOT = 0


def exchange(flat: Tensor, round: Round) -> None:
    workers = round.experiment.workers
    if workers == 1:
        return
    if round.rank == ROOT:
        leaves = range(1, workers)
        exchange_as_root(flat, leaves, lambda _, chunk: chunk.div_(round.divisor))
    else:
        exchange_as_leaf(flat, ROOT)
