"""ring: the ring all-reduce written out with send and receive, for teaching and for checking.

Sends 2(N-1)/N M per worker and round, like allreduce. The algorithm is in workloads/comm/ring_average.py:
read it beside what the library does.
"""

from __future__ import annotations

from torch import Tensor

from workloads.comm.ring_average import average_in_ring
from workloads.strategies.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    workers = round.experiment.workers
    if workers > 1:
        average_in_ring(flat, tuple(range(workers)), round.rank, round.divisor)
