"""Evaluation of the consensus model (the workers' average) and of each worker's own model."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from workloads.comm.flat import FlatModel
from workloads.comm.peers import Peers
from workloads.data.batches import Batch, test_batches
from workloads.data.samples import Samples
from workloads.objective import CROSS_ENTROPY, Objective


@dataclass(frozen=True)
class Score:
    accuracy: float | None
    loss: float | None
    """None without test data."""
    test_samples: int | None
    consensus_distance: float
    """RMS distance of the workers' parameters from their mean, relative to its norm."""


def score_consensus(
    model: nn.Module,
    flat: FlatModel,
    data: Samples,
    size: int,
    peers: Peers,
    objective: Objective = CROSS_ENTROPY,
) -> Score:
    """Average all workers' models, then score the average on `size` test samples.

    Loss and accuracy are those of a prediction: a text has one for each of its bytes. Each worker
    scores a part of the samples: one pass over the test set in total, whatever N. The
    workers' own parameters and buffers are restored afterwards.
    """
    own = [tensor.clone() for tensor in flat.state]
    take_average(flat, peers)
    distance = sum(
        float((before - part.parameters).double().square().sum())
        for before, part in zip(own, flat.parts, strict=False)
    )
    norm = math.hypot(*(float(part.parameters.double().norm()) for part in flat.parts))
    predictions = size * data.test_labels[:1].numel()
    batches = test_batches(data, rank=peers.rank, workers=peers.workers, test_size=size)
    correct, loss = _count(model, batches if size else (), objective)
    device = flat.state[0].device
    sums = torch.tensor([correct, loss, distance], dtype=torch.float64, device=device)
    peers.all_reduce_sum(sums)
    for tensor, before in zip(flat.state, own, strict=True):
        tensor.copy_(before)
    return Score(
        accuracy=None if not size or math.isnan(sums[0]) else float(sums[0]) / predictions,
        loss=float(sums[1]) / predictions if size else None,
        test_samples=size or None,
        consensus_distance=math.sqrt(float(sums[2]) / peers.workers) / norm if norm else 0.0,
    )


def take_average(flat: FlatModel, peers: Peers) -> None:
    """Replace this worker's model by the average of all workers' models."""
    if peers.workers > 1:
        for tensor in flat.state:
            peers.all_reduce_sum(tensor)
            tensor.div_(peers.workers)


def own_accuracy(
    model: nn.Module, data: Samples, size: int, objective: Objective = CROSS_ENTROPY
) -> float | None:
    """Accuracy of this worker's own model on `size` test samples."""
    if not size:
        return None
    correct, _ = _count(model, test_batches(data, rank=0, workers=1, test_size=size), objective)
    return None if math.isnan(correct) else correct / (size * data.test_labels[:1].numel())


@torch.no_grad()
def _count(model: nn.Module, batches: Iterable[Batch], objective: Objective) -> tuple[float, float]:
    """Number of correct predictions (NaN where outputs are no scores), and summed loss."""
    correct, loss = 0.0, 0.0
    device = next(model.parameters()).device
    model.eval()
    for batch in batches:
        inputs, labels = (tensor.to(device) for tensor in batch)
        outputs = model(inputs)
        loss += float(objective.total(outputs, labels))
        correct += objective.count(outputs, labels)
    model.train()
    return correct, loss
