"""How good the workers' models are: their average (the consensus model), and each by itself."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from workloads.comm.flat import FlatModel
from workloads.comm.rendezvous import Peers
from workloads.data.batches import Batch, test_batches
from workloads.data.readers import Samples


@dataclass(frozen=True)
class Score:
    accuracy: float | None
    loss: float | None
    """None where there is nothing to test on."""
    consensus_distance: float
    """Root mean square distance of the workers' parameters from their mean, relative to its norm."""


def score_consensus(
    model: nn.Module, flat: FlatModel, data: Samples, size: int, peers: Peers
) -> Score:
    """Average all workers' models, then score the average on `size` test samples.

    Each worker takes a part of them, so the whole costs one pass whatever N. The workers' own
    parameters and buffers are put back afterwards.
    """
    own = [tensor.clone() for tensor in flat.state]
    take_average(flat, peers)
    distance = sum(
        float((before - part.parameters).double().square().sum())
        for before, part in zip(own, flat.parts, strict=False)
    )
    norm = math.hypot(*(float(part.parameters.double().norm()) for part in flat.parts))
    mine = test_batches(data, rank=peers.rank, workers=peers.workers, test_size=size)
    correct, loss = _count(model, mine if size else ())
    where = flat.state[0].device
    sums = torch.tensor([correct, loss, distance], dtype=torch.float64, device=where)
    peers.all_reduce_sum(sums)
    for tensor, before in zip(flat.state, own, strict=True):
        tensor.copy_(before)
    return Score(
        accuracy=float(sums[0]) / size if size else None,
        loss=float(sums[1]) / size if size else None,
        consensus_distance=math.sqrt(float(sums[2]) / peers.workers) / norm if norm else 0.0,
    )


def take_average(flat: FlatModel, peers: Peers) -> None:
    """Make this worker's model the average of all."""
    if peers.workers > 1:
        for tensor in flat.state:
            peers.all_reduce_sum(tensor)
            tensor.div_(peers.workers)


def own_accuracy(model: nn.Module, data: Samples, size: int) -> float | None:
    """This worker's model as it is, on `size` test samples."""
    if not size:
        return None
    correct, _ = _count(model, test_batches(data, rank=0, workers=1, test_size=size))
    return correct / size


@torch.no_grad()
def _count(model: nn.Module, batches: Iterable[Batch]) -> tuple[int, float]:
    """Right answers and summed loss."""
    correct, loss = 0, 0.0
    where = next(model.parameters()).device
    model.eval()
    for inputs, labels in ((one.to(where), other.to(where)) for one, other in batches):
        outputs = model(inputs)
        loss += float(functional.cross_entropy(outputs, labels, reduction="sum"))
        correct += int((outputs.argmax(1) == labels).sum())
    model.train()
    return correct, loss
