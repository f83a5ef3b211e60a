"""A model's parameters in one contiguous buffer and its gradients in another.

An exchange then moves one buffer, without packing and unpacking, and the optimizer updates one tensor.
"""

from __future__ import annotations

import torch
from torch import nn


class FlatModel:
    """Owns the two buffers; the model's parameters become views into them."""

    def __init__(self, model: nn.Module) -> None:
        tensors = [p for p in model.parameters() if p.requires_grad]
        self.parameters = torch.cat([p.detach().reshape(-1) for p in tensors])
        self.gradients = torch.zeros_like(self.parameters)
        offset = 0
        for p in tensors:
            end = offset + p.numel()
            p.data = self.parameters[offset:end].view_as(p)
            p.grad = self.gradients[offset:end].view_as(p)
            offset = end


class Sgd:
    """Stochastic gradient descent with momentum on a flat model, as torch.optim.SGD defines it.

    Two tensor operations on one buffer; importing torch.optim costs each forked worker more.
    """

    def __init__(self, flat: FlatModel, lr: float, momentum: float) -> None:
        self.flat = flat
        self.lr = lr
        self.momentum = momentum
        self.velocity = torch.zeros_like(flat.parameters)

    def step(self) -> None:
        """Update, and clear the gradients for the next step to add to."""
        self.velocity.mul_(self.momentum).add_(self.flat.gradients)
        self.flat.parameters.add_(self.velocity, alpha=-self.lr)
        self.flat.gradients.zero_()
