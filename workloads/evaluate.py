"""How good the workers' models are: their average (the consensus model), and each by itself."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from workloads.batches import Batch, Mnist, test_batches
from workloads.flat import FlatModel


@dataclass(frozen=True)
class Score:
    accuracy: float
    loss: float
    consensus_distance: float
    """Root mean square distance of the workers' parameters from their mean, relative to its norm."""


def score_consensus(
    model: nn.Module, flat: FlatModel, data: Mnist, size: int, rank: int, workers: int
) -> Score:
    """Average all workers' parameters, then score the average on `size` test images.

    Each worker takes a part of the images, so the whole costs one pass whatever N. The workers' own
    parameters are put back afterwards.
    """
    own = flat.parameters.clone()
    distance = 0.0
    if workers > 1:
        dist.all_reduce(flat.parameters)
        flat.parameters.div_(workers)
        distance = float((own - flat.parameters).double().square().sum())
    correct, loss = _count(model, test_batches(data, rank=rank, workers=workers, test_size=size))
    sums = torch.tensor([correct, loss, distance], dtype=torch.float64)
    if workers > 1:
        dist.all_reduce(sums)
    norm = float(flat.parameters.double().norm())
    flat.parameters.copy_(own)
    return Score(
        accuracy=float(sums[0]) / size,
        loss=float(sums[1]) / size,
        consensus_distance=math.sqrt(float(sums[2]) / workers) / norm,
    )


def own_accuracy(model: nn.Module, data: Mnist, size: int) -> float:
    """This worker's model as it is, on `size` test images."""
    correct, _ = _count(model, test_batches(data, rank=0, workers=1, test_size=size))
    return correct / size


@torch.no_grad()
def _count(model: nn.Module, batches: Iterable[Batch]) -> tuple[int, float]:
    """Right answers and summed loss."""
    correct, loss = 0, 0.0
    for inputs, labels in batches:
        outputs = model(inputs)
        loss += float(functional.cross_entropy(outputs, labels, reduction="sum"))
        correct += int((outputs.argmax(1) == labels).sum())
    return correct, loss
