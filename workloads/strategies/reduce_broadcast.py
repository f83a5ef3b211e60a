"""reduce-broadcast: gradients are added up a binomial tree to a root, the mean goes down the same tree.

Everyone but the root sends M upwards; downwards everyone sends M to each of its children, the root to
log2 N of them: 2(N-1)/N M on average, with the root the busiest. What MPI programs without all-reduce do,
and parameter averaging on Spark.

In round k of the tree, workers whose k-th binary digit is 1 pass their sum to the one 2^k below.
"""

from __future__ import annotations

from torch import Tensor

from workloads.comm.messages import kept_buffer, sendrecv
from workloads.strategies.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    workers, rank = round.experiment.workers, round.rank
    if workers == 1:
        return
    arriving = kept_buffer("reduce-broadcast", flat.numel(), flat.dtype, flat.device)
    distance = 1
    while distance < workers and not rank & distance:
        if rank + distance < workers:
            sendrecv([], [(arriving, rank + distance)])
            flat.add_(arriving)
        distance *= 2
    if rank == 0:
        flat.div_(round.divisor)
    else:
        sendrecv([(flat, rank - distance)], [])
        sendrecv([], [(flat, rank - distance)])
    leaving = []
    while distance > 1:
        distance //= 2
        if rank + distance < workers:
            leaving.append((flat, rank + distance))
    sendrecv(leaving, [])
