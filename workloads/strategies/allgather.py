"""allgather: everyone gets every gradient and averages for itself.

Sends (N-1) M per worker and round: N/2 times an all-reduce. What first courses write when they know
only all-gather, and what methods need that look at every worker's gradient (sparse ones, robust means).

The gradients go round a ring: in each of N-1 hops a worker passes on what came last. All links carry the
same, and no receiver is flooded by several senders at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from workloads.messages import kept_buffer, swap
from workloads.strategies.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    workers, rank = round.experiment.workers, round.rank
    if workers == 1:
        return
    gathered = kept_buffer("allgather", workers * flat.numel(), flat.dtype).view(workers, -1)
    gathered[rank].copy_(flat)
    right, left = (rank + 1) % workers, (rank - 1) % workers
    for hop in range(workers - 1):
        passed_on, arriving = gathered[(rank - hop) % workers], gathered[(rank - hop - 1) % workers]
        swap(passed_on, right, arriving, left)
    # In the order of ranks, so that all workers get the same bits.
    torch.mean(gathered, 0, out=flat)
