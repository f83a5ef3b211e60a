"""allreduce: every worker gets the mean of all gradients by a bandwidth-optimal ring.

Sends 2(N-1)/N M per worker and round. What Horovod and DistributedDataParallel do.
The gradients leave in buckets so that one bucket's reduction overlaps the next one's transfer.
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor

from workloads.strategies.round import Round

BUCKET_BYTES = 25 * 2**20
"""As in DistributedDataParallel; a model below this is one bucket."""


def exchange(flat: Tensor, round: Round) -> None:
    workers = round.experiment.workers
    if workers == 1:
        return
    buckets = flat.split(BUCKET_BYTES // flat.element_size())
    handles = [dist.all_reduce(bucket, async_op=True) for bucket in buckets]
    for bucket, handle in zip(buckets, handles, strict=True):
        handle.wait()
        bucket.div_(workers)
