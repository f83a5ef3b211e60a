"""A model with emulated compute (cluster/spec/synthetic.py describes its name).

Each layer sleeps until the time at which a real accelerator would have finished it. Because
deadlines count from the start of the step, the step's own overhead is part of the given time.
"""

import time
from typing import Any

import torch
from torch import Tensor, nn

from cluster.spec.synthetic import Synthetic

GRADIENT = 1e-3
"""The gradient of every weight in every step."""


class Clock:
    """The start of the current step, and the deadline of each of its layers."""

    def __init__(self, model: Synthetic, dilation: float) -> None:
        self.layers = model.layers
        self.forward_s = model.forward_s * dilation
        self.backward_s = model.backward_s * dilation
        self.began = 0.0

    def forward(self, done: int) -> None:
        """Sleep until `done` layers are computed; the first one starts the step."""
        if done == 1:
            self.began = time.perf_counter()
        self._sleep_until(done / self.layers * self.forward_s)

    def backward(self, done: int) -> None:
        """Sleep until `done` layers are computed; backward begins at forward's deadline."""
        self._sleep_until(self.forward_s + done / self.layers * self.backward_s)

    def _sleep_until(self, elapsed_s: float) -> None:
        left = self.began + elapsed_s - time.perf_counter()
        if left > 0:
            time.sleep(left)


class SyntheticNet(nn.Module):
    """Layers of equal sizes, or of a real network's, that pass their input through."""

    def __init__(self, model: Synthetic, dilation: float = 1.0) -> None:
        super().__init__()
        self.clock = Clock(model, dilation)
        self.weights = nn.ParameterList(torch.zeros(size) for size in model.sizes)

    def forward(self, inputs: Tensor) -> Tensor:
        x = inputs.flatten(1)[:, :1].expand(-1, 2)  # two classes, always equally likely
        for k, weight in enumerate(self.weights):
            x = _Layer.apply(x, weight, self.clock, k)
        return x


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, clock: Clock, k: int) -> Tensor:
        ctx.weight, ctx.clock, ctx.k = weight, clock, k
        clock.forward(k + 1)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        ctx.clock.backward(ctx.clock.layers - ctx.k)
        return (
            gradient,
            torch.full((), GRADIENT, device=ctx.weight.device).expand_as(ctx.weight),
            None,
            None,
        )
