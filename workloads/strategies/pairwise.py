"""pairwise: after a local update, groups of passes+1 workers average their parameters.

A group of g sends 2(g-1)/g M per member and round: M for a pair. The groups change from round to
round, so what one worker learned reaches all (cluster/spec/schedules.py). Iterative pairwise averaging
(gossip) is passes = 1; passes >= N-1 is an all-reduce of the parameters.
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor

from workloads.comm.ring_average import average_in_ring
from workloads.strategies.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    members = round.members
    if len(members) == 1:
        return
    if len(members) == round.experiment.workers:
        dist.all_reduce(flat)
        flat.div_(round.experiment.workers)
    else:
        average_in_ring(flat, members, round.rank, len(members))
