"""A model that only pretends to compute (cluster/synthetic.py says how it is named).

Its layers sleep until the moment at which a real accelerator would be done with them. They sleep until,
not for: what the step itself costs is then part of the given time, and nothing adds up over the layers.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from cluster.synthetic import Synthetic

GRADIENT = 1e-3
"""Of every weight in every step."""


class Clock:
    """When the current pass over the layers began, and how long a layer takes in it."""

    def __init__(self, model: Synthetic) -> None:
        self.layers = model.layers
        self.layer_s = {
            "forward": model.forward_s / model.layers,
            "backward": model.backward_s / model.layers,
        }
        self.began = 0.0

    def pass_layer(self, way: str, done: int) -> None:
        """Sleep until so many layers of this pass are done; the first one starts the clock."""
        if done == 1:
            self.began = time.perf_counter()
        left = self.began + done * self.layer_s[way] - time.perf_counter()
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
        clock.pass_layer("forward", k + 1)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        ctx.clock.pass_layer("backward", ctx.clock.layers - ctx.k)
        return (
            gradient,
            torch.full((), GRADIENT, device=ctx.weight.device).expand_as(ctx.weight),
            None,
            None,
        )
