"""Sums in another order: models stay equal until rounding decides a tie of ReLU or pooling."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from workloads.models.networks import MnistNet, make_model

WORKERS, BATCH, STEPS, RATE, MOMENTUM = 4, 8, 50, 0.1, 0.5
SEEDS = range(1, 4)


def one_by_one(gradients: list[Tensor]) -> Tensor:
    """As round a ring."""
    return ((gradients[0] + gradients[1]) + gradients[2]) + gradients[3]


def as_a_tree(gradients: list[Tensor]) -> Tensor:
    return (gradients[0] + gradients[1]) + (gradients[2] + gradients[3])


def decisions(model: MnistNet, images: Tensor) -> Tensor:
    """Which input each pooling window takes, and which activations each ReLU lets through."""
    found, x = [], images
    for layer in (model.conv1, model.conv2):
        x, places = functional.max_pool2d(layer(x), 2, return_indices=True)
        found += [places.flatten(), (x > 0).long().flatten()]
        x = functional.relu(x)
    return torch.cat([*found, (model.fc1(x.flatten(1)) > 0).long().flatten()])


class Run:
    """Training whose workers' gradients are added in one order."""

    def __init__(self, seed: int, dtype: torch.dtype, *, tree: bool) -> None:
        model = make_model("mnist-cnn", seed)
        assert isinstance(model, MnistNet)
        self.model, self.add = model.to(dtype), as_a_tree if tree else one_by_one
        self.sgd = torch.optim.SGD(self.model.parameters(), RATE, MOMENTUM)

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        """The decisions of this step."""
        shards = zip(images.chunk(WORKERS), labels.chunk(WORKERS), strict=True)
        losses = [functional.cross_entropy(self.model(x), y) for x, y in shards]
        parameters = list(self.model.parameters())
        by_worker = [torch.autograd.grad(loss, parameters) for loss in losses]
        for parameter, gradients in zip(parameters, zip(*by_worker, strict=True), strict=True):
            parameter.grad = self.add(list(gradients)) / WORKERS
        with torch.no_grad():
            decided = decisions(self.model, images)
        self.sgd.step()
        return decided

    @property
    def parameters(self) -> Tensor:
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])


def equal_until(seed: int, dtype: torch.dtype) -> int:
    """The step at which a decision differs, STEPS if none does; equal to 1e-5 until then."""
    runs = [Run(seed, dtype, tree=tree) for tree in (False, True)]
    generator = torch.Generator().manual_seed(seed)
    for step in range(STEPS):
        images = torch.randn(WORKERS * BATCH, 1, 28, 28, generator=generator).to(dtype)
        labels = torch.randint(10, (WORKERS * BATCH,), generator=generator)
        first, second = (run.step(images, labels) for run in runs)
        if not torch.equal(first, second):
            return step
        assert torch.allclose(runs[0].parameters, runs[1].parameters, rtol=0, atol=1e-5), step
    return STEPS


@pytest.mark.parametrize("seed", SEEDS)
def test_models_are_equal_until_rounding_decides_a_tie(seed: int) -> None:
    """In double precision no tie comes up: rounding is 1e9 times smaller."""
    in_single, in_double = (equal_until(seed, dtype) for dtype in (torch.float32, torch.float64))
    assert 0 < in_single <= in_double == STEPS
