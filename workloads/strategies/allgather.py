"""allgather: everyone gets every gradient and averages for itself.

Sends (N-1) M per worker and round: N/2 times an all-reduce. What first courses write when they know
only all-gather, and what methods need that look at every worker's gradient (sparse ones, robust means).

The gradients go round a ring: in each of N-1 hops a worker passes on what came last, chunk by chunk, as it
comes. All links carry the same all the time, and no receiver is flooded by several senders at once. NCCL has
an all-gather of its own that does so.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from workloads.comm.messages import are_grouped, cut, kept_buffer, receive, send
from workloads.strategies.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    workers, rank = round.experiment.workers, round.rank
    if workers == 1:
        return
    memory = kept_buffer("allgather", workers * flat.numel(), flat.dtype, flat.device)
    gathered = memory.view(workers, -1)
    if are_grouped():
        dist.all_gather_into_tensor(memory, flat)
    else:
        _pass_round(flat, gathered, rank)
    # In the order of ranks, so that all workers get the same bits.
    torch.sum(gathered, 0, out=flat)
    flat.div_(round.divisor)


def _pass_round(flat: Tensor, gathered: Tensor, rank: int) -> None:
    workers = len(gathered)
    gathered[rank].copy_(flat)
    right, left = (rank + 1) % workers, (rank - 1) % workers
    chunks = [cut(gathered[(rank - hop) % workers]) for hop in range(workers)]
    arriving = [
        [receive(chunk, left, tag=i) for i, chunk in enumerate(chunks[hop])]
        for hop in range(1, workers)
    ]
    leaving = [send(chunk, right, tag=i) for i, chunk in enumerate(chunks[0])]
    for hop, handles in enumerate(arriving, start=1):
        for i, handle in enumerate(handles):
            handle.wait()
            if hop < workers - 1:
                leaving.append(send(chunks[hop][i], right, tag=i))
    for handle in leaving:
        handle.wait()
