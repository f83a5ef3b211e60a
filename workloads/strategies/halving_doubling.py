"""halving-doubling: an all-reduce in 2 log2 N messages instead of a ring's 2(N-1).

Recursive halving: partners at distance N/2, N/4, ..., 1 swap halves of what they still sum, so that
each worker ends with the sum of one piece. Recursive doubling brings the pieces back by the same
partners in reverse (Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005).

Bytes sent per worker and round: 2(N-1)/N M, as with a ring, where N is a power of two. Otherwise
the ranks from the largest power of two P on first send all of M to the rank P below, and get the
result back from it: M more for both. Fewer messages pay where latency counts, as for small models
among many workers.
"""

from torch import Tensor

from workloads.comm.messages import reused_buffer, sendrecv
from workloads.comm.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    workers, rank = round.experiment.workers, round.rank
    if workers == 1:
        return
    power = 1 << workers.bit_length() - 1  # the largest power of two up to N
    if rank >= power:
        sendrecv([(flat, rank - power)], [])
        sendrecv([], [(flat, rank - power)])
        return
    received = reused_buffer("halving-doubling", flat.numel(), flat.dtype, flat.device)
    if rank + power < workers:
        sendrecv([], [(received, rank + power)])
        flat.add_(received)
    _reduce_and_gather(flat, received, rank, power, round.divisor)
    if rank + power < workers:
        sendrecv([(flat, rank + power)], [])


def _reduce_and_gather(
    flat: Tensor, received: Tensor, rank: int, workers: int, divisor: int
) -> None:
    """Among a power of two of workers; each piece is divided by its one owner."""
    swaps: list[tuple[int, Tensor, Tensor]] = []
    own, distance = flat, workers // 2
    while distance:
        lower, upper = own.tensor_split(2)
        own, other = (upper, lower) if rank & distance else (lower, upper)
        partner, arrived = rank ^ distance, received[: own.numel()]
        sendrecv([(other, partner)], [(arrived, partner)])
        own.add_(arrived)
        swaps.append((partner, own, other))
        distance //= 2
    own.div_(divisor)
    for partner, own, other in reversed(swaps):
        sendrecv([(own, partner)], [(other, partner)])
