"""ddp: torch's own DistributedDataParallel, the peer to beat.

Sends 2(N-1)/N M per worker and round: buckets of 25 MiB (--bucket-mb) are all-reduced during backward, as
soon as their gradients are there. What almost everybody uses.

The exchange happens inside backward, so there is none left to make afterwards, and its time cannot be told
from that of the computation.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cluster.spec.experiment import Experiment
from workloads.comm.messages import WIRE_TYPES
from workloads.strategies.round import Round

PER_TENSOR_MB = 1e-6
"""A bucket cap that any tensor reaches."""


def exchange(flat: Tensor, round: Round) -> None:
    """It has happened."""


def wrap(model: nn.Module, experiment: Experiment) -> nn.Module:
    """The model that exchanges by itself."""
    if experiment.workers == 1:
        return model
    bucket_mb = None if experiment.bucket_mb is None else max(experiment.bucket_mb, PER_TENSOR_MB)
    wrapped = nn.parallel.DistributedDataParallel(
        model, bucket_cap_mb=bucket_mb, broadcast_buffers=experiment.buffers == "broadcast"
    )
    dtype = WIRE_TYPES[experiment.compress]
    if dtype is not None:
        wrapped.register_comm_hook(
            dtype, lambda dtype, bucket: _average_small(dtype, bucket.buffer())
        )
    return wrapped


def _average_small(dtype: torch.dtype, gradients: Tensor) -> Any:
    """A bucket in half precision. torch's own hooks do the same, but its bf16 one asks for CUDA."""
    small = gradients.to(dtype).div_(dist.get_world_size())
    work = dist.all_reduce(small, async_op=True)
    assert work is not None
    return work.get_future().then(lambda done: gradients.copy_(done.value()[0]))
