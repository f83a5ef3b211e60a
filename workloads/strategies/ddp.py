"""ddp: torch's DistributedDataParallel, the usual way to train on several workers.

Bytes sent per worker and round: 2(N-1)/N M. Buckets of 25 MiB (--bucket-mb) are all-reduced during
backward, each as soon as its gradients are computed.

The exchange overlaps backward, so its time cannot be separated from compute time.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cluster.spec.exchange.codecs import parse_codec
from cluster.spec.experiment import Experiment
from workloads.comm.messages import WIRE_TYPES
from workloads.comm.outer import stateful_exchange
from workloads.comm.round import Exchange, Round
from workloads.strategies import allreduce

PER_TENSOR_MB = 1e-6
"""A bucket size below that of any tensor: one bucket per tensor."""


def exchange(flat: Tensor, round: Round) -> None:
    """No-op: DDP all-reduces gradients during backward."""


def wrap(model: nn.Module, experiment: Experiment) -> nn.Module:
    """The model in DistributedDataParallel, unless there is a single worker."""
    if experiment.workers == 1:
        return model
    bucket_mb = None if experiment.bucket_mb is None else max(experiment.bucket_mb, PER_TENSOR_MB)
    wrapped = nn.parallel.DistributedDataParallel(
        model, bucket_cap_mb=bucket_mb, broadcast_buffers=experiment.buffers == "broadcast"
    )
    if parse_codec(experiment.compress).lossy:
        wrapped.register_comm_hook(
            _Encoded(experiment), lambda state, bucket: _exchange_encoded(state, bucket)
        )
    elif dtype := WIRE_TYPES[experiment.compress]:
        wrapped.register_comm_hook(
            dtype, lambda dtype, bucket: _all_reduce_in_half(dtype, bucket.buffer())
        )
    return wrapped


class _Encoded:
    """A lossy codec's exchange of every bucket, with the memory of its error feedback."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.round = 0
        self.exchanges: dict[tuple[int, ...], Exchange] = {}
        """By the ids of a bucket's parameters: torch sorts them anew after the first step."""


def _exchange_encoded(state: _Encoded, bucket: Any) -> torch.futures.Future[Tensor]:
    """Communication hook. Backward waits for it: encoding needs the core anyway."""
    gradients, key = bucket.buffer(), tuple(map(id, bucket.parameters()))
    if key not in state.exchanges:
        shapes = [gradient.shape for gradient in bucket.gradients()]
        exchange = stateful_exchange(allreduce.exchange, state.experiment, gradients, shapes)
        state.exchanges[key] = exchange
    round = Round(state.experiment, dist.get_rank(), state.round, bucket.index())
    state.exchanges[key](gradients, round)
    state.round += bucket.is_last()
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(gradients)
    return done


def _all_reduce_in_half(dtype: torch.dtype, gradients: Tensor) -> Any:
    """Communication hook: average a bucket in 16 bits. torch's own bf16 hook requires CUDA."""
    half = gradients.to(dtype).div_(dist.get_world_size())
    work = dist.all_reduce(half, async_op=True)
    assert work is not None
    return work.get_future().then(lambda done: gradients.copy_(done.value()[0]))
