"""A model that only pretends to compute (cluster/spec/synthetic.py says how it is named).

Its layers sleep until the moment at which a real accelerator would be done with them. They sleep until,
not for: what the step itself costs is then part of the given time, and nothing adds up over the layers.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from cluster.spec.synthetic import Synthetic

GRADIENT = 1e-3
"""Of every weight in every step."""


class Clock:
    """When the current step began, and by when each of its layers is done."""

    def __init__(self, model: Synthetic) -> None:
        self.layers = model.layers
        self.forward_s, self.backward_s = model.forward_s, model.backward_s
        self.began = 0.0

    def forward(self, done: int) -> None:
        """Sleep until so many layers are done; the first one starts the clock."""
        if done == 1:
            self.began = time.perf_counter()
        self._sleep_until(done / self.layers * self.forward_s)

    def backward(self, done: int) -> None:
        """Backward begins when forward was to end: the loss in between is part of the given time too."""
        self._sleep_until(self.forward_s + done / self.layers * self.backward_s)

    def _sleep_until(self, elapsed_s: float) -> None:
        left = self.began + elapsed_s - time.perf_counter()
        if left > 0:
            time.sleep(left)


class SyntheticNet(nn.Module):
    """Layers of equal size, or of a real network's; what goes in comes out."""

    def __init__(self, model: Synthetic) -> None:
        super().__init__()
        self.clock = Clock(model)
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
