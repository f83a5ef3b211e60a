"""pairwise: after a local update, groups of P+1 workers (--passes P) average their parameters.

Bytes sent per round by a member of a group of g = P+1 workers: 2(g-1)/g M, which is M in a pair.
Groups change from round to round (cluster/spec/schedules/pairwise.py), so updates spread to all
workers. P = 1 is iterative pairwise averaging (gossip); P >= N-1 is an all-reduce of the
parameters.
"""

import torch.distributed as dist
from torch import Tensor

from workloads.comm.ring import ring_average
from workloads.comm.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    members = round.members
    if len(members) == 1:
        return
    if len(members) == round.experiment.workers:
        dist.all_reduce(flat)
        flat.div_(round.experiment.workers)
    else:
        ring_average(flat, members, round.rank, len(members))
