"""ring: the ring all-reduce written out with send and receive.

Bytes sent per worker and round: 2(N-1)/N M, as with allreduce. The algorithm is in
workloads/comm/ring.py, to be read and compared with the library's.
"""

from torch import Tensor

from workloads.comm.ring import ring_average
from workloads.comm.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    workers = round.experiment.workers
    if workers > 1:
        ring_average(flat, tuple(range(workers)), round.rank, round.divisor)
