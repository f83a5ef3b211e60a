"""sgp: stochastic gradient push. After a local update every worker sends half of what it has to one
other worker, by a directed graph, and keeps the other half (Assran et al. 2019).

Bytes sent per worker and round: M, to the worker 2^(t mod log2 N) places on
(cluster/spec/schedules/push_sum.py). The sum over the workers is what it was. Push-sum's weights,
which go with the parameters, are in workloads/comm/push_sum.py.
"""

from torch import Tensor

from cluster.spec.schedules.push_sum import distance
from workloads.comm.messages import reused_buffer, sendrecv
from workloads.comm.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    workers, rank = round.experiment.workers, round.rank
    if workers == 1:
        return
    hop = distance(round.index, workers)
    received = reused_buffer("sgp", flat.numel(), flat.dtype, flat.device)
    flat.div_(2)
    sendrecv([(flat, (rank + hop) % workers)], [(received, (rank - hop) % workers)])
    flat.add_(received)
