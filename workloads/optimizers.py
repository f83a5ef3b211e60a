"""Optimizers on a flat model: a few operations on whole tensors.

SGD and AdamW are defined as in torch.optim, whose import would cost every forked worker time.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from cluster.spec.experiment import Experiment
from cluster.spec.learning_rate import learning_rate
from workloads.comm.flat import FlatModel

BETAS = (0.9, 0.999)
EPSILON = 1e-8
TRUST = 0.001
"""LARS: norm of a layer's update relative to its weights, at a learning rate of 1."""


class Optimizer:
    """Updates the model, whole or slice by slice, and clears its gradients."""

    def __init__(self, flat: FlatModel, lr: float, weight_decay: float = 0.0) -> None:
        self.flat, self.lr, self.weight_decay = flat, lr, weight_decay
        self._updates = torch.zeros(1, dtype=torch.int64)

    @property
    def updates(self) -> int:
        return int(self._updates)

    def tensors(self) -> dict[str, Tensor]:
        """What it remembers from update to update, itself and not a copy."""
        return {"updates": self._updates}

    def begin(self) -> None:
        """Begin an update of the whole model, of which update() calls are parts."""
        self._updates += 1

    def step(self) -> None:
        self.begin()
        for index, part in enumerate(self.flat.parts):
            self.update(index, slice(None), part.gradients)
            part.gradients.zero_()

    def update(self, part: int, where: slice, gradients: Tensor) -> Tensor:
        """Update a slice of a part by its gradients, and return that slice of the parameters."""
        raise NotImplementedError

    def _zeros(self) -> list[Tensor]:
        return [torch.zeros_like(part.parameters) for part in self.flat.parts]


class Sgd(Optimizer):
    """Stochastic gradient descent with momentum."""

    def __init__(
        self, flat: FlatModel, lr: float, momentum: float, weight_decay: float = 0.0
    ) -> None:
        super().__init__(flat, lr, weight_decay)
        self.momentum = momentum
        self.velocities = self._zeros()

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | _numbered("velocity", self.velocities)

    def update(self, part: int, where: slice, gradients: Tensor) -> Tensor:
        parameters = self.flat.parts[part].parameters[where]
        if self.weight_decay:
            gradients = gradients.add(parameters, alpha=self.weight_decay)
        velocity = self.velocities[part][where].mul_(self.momentum).add_(gradients)
        return parameters.add_(velocity, alpha=-self.lr)


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    def __init__(self, flat: FlatModel, lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(flat, lr, weight_decay)
        self.means, self.squares = self._zeros(), self._zeros()

    def tensors(self) -> dict[str, Tensor]:
        moments = _numbered("mean", self.means) | _numbered("square", self.squares)
        return super().tensors() | moments

    def update(self, part: int, where: slice, gradients: Tensor) -> Tensor:
        parameters = self.flat.parts[part].parameters[where].mul_(1 - self.lr * self.weight_decay)
        mean = self.means[part][where].lerp_(gradients, 1 - BETAS[0])
        square = self.squares[part][where].mul_(BETAS[1])
        square.addcmul_(gradients, gradients, value=1 - BETAS[1])
        # Bias correction: both start at 0.
        mean_share, square_share = (1 - beta**self.updates for beta in BETAS)
        divisor = square.sqrt().div_(math.sqrt(square_share)).add_(EPSILON)
        return parameters.addcdiv_(mean, divisor, value=-self.lr / mean_share)


class Lars(Sgd):
    """SGD with layer-wise steps proportional to the weights' norm (You, Gitman and Ginsburg 2017).

    Vectors (biases, batch norm) are updated as by SGD.
    """

    def update(self, part: int, where: slice, gradients: Tensor) -> Tensor:
        assert where == slice(None), "a layer's norm needs the whole layer"
        model = self.flat.parts[part]
        for tensor, begin in zip(model.tensors, model.offsets, strict=False):
            place = slice(begin, begin + tensor.numel())
            weights, gradient = model.parameters[place], gradients[place]
            rate = self.lr * self._trust(weights, gradient, tensor.dim())
            change = gradient.add(weights, alpha=self.weight_decay).mul_(rate)
            weights.sub_(self.velocities[part][place].mul_(self.momentum).add_(change))
        return model.parameters

    def _trust(self, weights: Tensor, gradient: Tensor, dimensions: int) -> float:
        size = float(weights.norm())
        against = float(gradient.norm()) + self.weight_decay * size
        return TRUST * size / against if dimensions > 1 and size and against else 1.0


def _numbered(name: str, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    return {f"{name}.{part}": tensor for part, tensor in enumerate(tensors)}


def make_optimizer(spec: Experiment, flat: FlatModel) -> Optimizer:
    lr = learning_rate(spec, 0)
    if spec.optimizer == "adamw":
        return AdamW(flat, lr, spec.weight_decay)
    assert spec.momentum is not None
    kind = {"sgd": Sgd, "lars": Lars}[spec.optimizer]
    return kind(flat, lr, spec.momentum, spec.weight_decay)
