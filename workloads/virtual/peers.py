"""Peers of a virtual worker: exchanges go through torch.distributed, as on nodes, in memory."""

from dataclasses import dataclass
from typing import cast

import torch.distributed as dist
from torch import Tensor

from cluster.spec.experiment import Experiment
from workloads.launchers.torch_peers import TorchPeers
from workloads.virtual.group import ThreadGroup


@dataclass(frozen=True)
class VirtualPeers(TorchPeers):
    """Implements workloads.comm.peers.Peers."""

    def barrier(self) -> None:
        dist.barrier()

    def all_reduce_sum(self, tensor: Tensor) -> None:
        _group().reduce_among(self.workers, tensor)

    def broadcast_from_first(self, tensor: Tensor) -> None:
        _group().broadcast_among(self.workers, tensor)

    def leave(self) -> None:
        dist.barrier()


def join(spec: Experiment, rank: int, model_bytes: int) -> VirtualPeers:
    """There is nobody to connect to: the group was opened before its threads."""
    return VirtualPeers(spec, rank, None)


def _group() -> ThreadGroup:
    return cast(ThreadGroup, dist.group.WORLD)
