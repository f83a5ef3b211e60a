"""allgather: every worker receives every gradient and computes the mean itself.

Bytes sent per worker and round: (N-1) M, which is N/2 times an all-reduce. Methods need it that
look at each worker's gradient separately (sparse gradients, robust means).

The gradients travel round a ring: in each of N-1 hops a worker forwards what it received in the hop
before, chunk by chunk, as chunks arrive. All links are equally loaded, and no receiver has several
senders at once. With NCCL the library's own all-gather does the same.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from workloads.comm.messages import messages_are_grouped, reused_buffer
from workloads.comm.ring import gather_round_the_ring
from workloads.comm.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    workers, rank = round.experiment.workers, round.rank
    if workers == 1:
        return
    memory = reused_buffer("allgather", workers * flat.numel(), flat.dtype, flat.device)
    gathered = memory.view(workers, -1)
    if messages_are_grouped():
        dist.all_gather_into_tensor(memory, flat)
    else:
        gather_round_the_ring(flat, gathered, rank)
    torch.sum(gathered, 0, out=flat)  # in rank order, so that all workers get identical bits
    flat.div_(round.divisor)
