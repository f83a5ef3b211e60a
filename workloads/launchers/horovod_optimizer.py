"""All-reduce of gradients by hvd.DistributedOptimizer, as Horovod's users do it.

Its hooks submit each gradient as soon as backward has computed it; Horovod fuses the submitted ones
and all-reduces them during backward. What remains after backward is the exposed communication.
"""

from typing import Any

import horovod.torch as hvd
import torch
from torch import nn

from cluster.spec.experiment import Experiment
from workloads.comm.exchanger import exchange_buffers
from workloads.comm.flat import FlatModel
from workloads.comm.peers import Peers
from workloads.comm.round import Exchange, Round
from workloads.optimizers import Optimizer


def as_torch(optimizer: Optimizer) -> Any:
    """A torch optimizer class for Horovod to subclass, which calls gradwire's optimizer."""

    class Flat(torch.optim.Optimizer):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {})

        def step(self, closure: Any = None) -> Any:
            optimizer.step()

    return Flat


class OptimizerExchanger:
    """Implements peers.RoundExchanger; --local-steps is Horovod's backward_passes_per_step."""

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

    def begin_round(self, index: int, steps: int) -> None:
        self._round, self._steps = Round(self.spec, self.peers.rank, index), steps

    def finish_round(self) -> None:
        """Wait for all gradients; those of an incomplete accumulation are submitted only now."""
        assert self._round is not None
        self._optimizer.synchronize()
        if self.spec.compress != "none":
            self._copy_decompressed()
        if self._steps > 1:
            for part in self.flat.parts:
                part.gradients.div_(self._steps)  # Horovod accumulates the sum
        exchange_buffers(self.flat, self._round, self.peers, self._exchange_buffer)

    def update(self) -> None:
        with self._optimizer.skip_synchronize():
            self._optimizer.step()

    def _copy_decompressed(self) -> None:
        """Copy decompressed gradients, which have their own memory, back into the flat model."""
        for part in self.flat.parts:
            for tensor, start in zip(part.tensors, part.offsets, strict=False):
                place = part.gradients[start : start + tensor.numel()].view(tensor.shape)
                assert tensor.grad is not None
                place.copy_(tensor.grad)
                tensor.grad = place
