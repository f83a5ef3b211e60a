"""reduce-broadcast: a binomial tree reduces gradients to a root and broadcasts the mean back.

Bytes sent per round: every worker but the root sends M up the tree; down the tree every worker
sends M to each of its children, the root to log2 N of them. 2(N-1)/N M on average, and most by the
root. MPI programs without all-reduce do this, and parameter averaging on Spark.

Level k of the tree: workers whose k-th binary digit is 1 send their sum to the rank 2^k below.
"""

from torch import Tensor

from workloads.comm.messages import reused_buffer, sendrecv
from workloads.comm.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    workers, rank = round.experiment.workers, round.rank
    if workers == 1:
        return
    received = reused_buffer("reduce-broadcast", flat.numel(), flat.dtype, flat.device)
    distance = 1
    while distance < workers and not rank & distance:
        if rank + distance < workers:
            sendrecv([], [(received, rank + distance)])
            flat.add_(received)
        distance *= 2
    if rank == 0:
        flat.div_(round.divisor)
    else:
        sendrecv([(flat, rank - distance)], [])
        sendrecv([], [(flat, rank - distance)])
    to_children = []
    while distance > 1:
        distance //= 2
        if rank + distance < workers:
            to_children.append((flat, rank + distance))
    sendrecv(to_children, [])
