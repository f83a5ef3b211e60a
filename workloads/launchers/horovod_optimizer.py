"""An all-reduce of gradients as Horovod's users have it: hvd.DistributedOptimizer.

Its hooks hand each gradient over as soon as backward has computed it; Horovod fuses what is ready and
all-reduces it meanwhile. What is left of that after backward is the exposed communication.
"""

from __future__ import annotations

from typing import Any

import horovod.torch as hvd
import torch
from torch import nn

from cluster.spec.experiment import Experiment
from workloads.comm.exchanger import exchange_buffers
from workloads.comm.flat import FlatModel
from workloads.comm.rendezvous import Peers
from workloads.optimizers import Optimizer
from workloads.strategies import Exchange, Round


def as_torch(optimizer: Optimizer) -> Any:
    """Ours as one of torch's, which Horovod makes a subclass of: same updates whoever carries them."""

    class Flat(torch.optim.Optimizer):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {})

        def step(self, closure: Any = None) -> Any:
            optimizer.step()

    return Flat


class OptimizerExchanger:
    """See workloads.meeting.Exchanging; --local-steps are Horovod's backward_passes_per_step."""

    def __init__(
        self,
        model: nn.Module,
        flat: FlatModel,
        optimizer: Optimizer,
        spec: Experiment,
        peers: Peers,
        exchange_buffer: Exchange,
    ) -> None:
        self.flat, self.spec, self.peers = flat, spec, peers
        self._exchange_buffer = exchange_buffer
        trainable = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self._optimizer = hvd.DistributedOptimizer(
            as_torch(optimizer)([p for _, p in trainable]),
            named_parameters=trainable,
            compression=hvd.Compression.fp16 if spec.compress == "fp16" else hvd.Compression.none,
            backward_passes_per_step=spec.local_steps,
            op=hvd.Sum if spec.reduce == "sum" else hvd.Average,
        )
        self._round: Round | None = None
        self._steps = 1

    def begin(self, index: int, steps: int) -> None:
        self._round, self._steps = Round(self.spec, self.peers.rank, index), steps

    def complete(self) -> None:
        """Wait for all; gradients of an incomplete accumulation leave only now."""
        assert self._round is not None
        self._optimizer.synchronize()
        if self.spec.compress != "none":
            self._take_back()
        if self._steps > 1:
            for part in self.flat.parts:
                part.gradients.div_(self._steps)  # Horovod only adds them up
        exchange_buffers(self.flat, self._round, self.peers, self._exchange_buffer)

    def update(self) -> None:
        with self._optimizer.skip_synchronize():
            self._optimizer.step()

    def _take_back(self) -> None:
        """Decompressed gradients lie in memory of their own: back into the flat model's."""
        for part in self.flat.parts:
            for tensor, start in zip(part.tensors, part.offsets, strict=False):
                place = part.gradients[start : start + tensor.numel()].view(tensor.shape)
                assert tensor.grad is not None
                place.copy_(tensor.grad)
                tensor.grad = place
