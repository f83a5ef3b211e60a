"""A worker's batches: its shard of every epoch, its part of the test set.

The law that makes worker counts comparable: what N workers with batches of b take together in a
step is exactly what one worker with batches of N x b takes. Who takes what is a pure function of
seed, epoch and rank, so no worker has to ask another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from workloads.data import partition as partitions
from workloads.data.dataset import DataError
from workloads.data.samples import Samples

SUBSET_SEED = 20_120_501
"""Chooses which samples a smaller train_size keeps. Not the experiment's seed: repeats with other
seeds must train on the same samples, or their spread would show the luck of the draw. Smaller
subsets are parts of larger ones."""

MARGIN = 4
"""Pixels by which an image is moved at most, where images are augmented."""

MOST_TESTED, NUMBERS_TESTED = 500, 400_000
"""Test samples at a time, and the numbers in them: large images make for large activations."""

Batch = tuple[Tensor, Tensor]
"""Inputs as the network takes them; labels, int64, n."""


def epoch_order(available: int, train_size: int, seed: int, epoch: int) -> Tensor:
    """The samples of an epoch in this epoch's order, the same on every worker."""
    subset = kept(available, train_size)
    return subset[torch.randperm(train_size, generator=_generator(seed, epoch))]


def kept(available: int, train_size: int) -> Tensor:
    """The samples that this train_size keeps."""
    if not 0 < train_size <= available:
        raise DataError(f"train_size is {train_size}, there are {available} samples to train on")
    return torch.randperm(available, generator=_generator(SUBSET_SEED))[:train_size]


def _generator(*numbers: int) -> torch.Generator:
    """Hashed, because with a sum seed 1 would repeat the orders of seed 0 one epoch later."""
    digest = hashlib.sha256(repr(numbers).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))


def shard(order: Tensor, rank: int, workers: int, batch_size: int) -> Tensor:
    """What a worker takes of an epoch: order[rank::workers], one row for each whole batch."""
    _check_rank(rank, workers)
    steps = len(order) // (workers * batch_size)
    return order[: steps * batch_size * workers].view(steps, batch_size, workers)[:, :, rank]


def own_samples(
    labels: Tensor, *, rank: int, workers: int, train_size: int, partition: str, seed: int
) -> Tensor | None:
    """The samples that are this worker's in all epochs; None for iid, where every epoch deals anew."""
    _check_rank(rank, workers)
    if partition == "iid":
        return None
    subset = kept(len(labels), train_size)
    return subset[partitions.shards(labels[subset], workers, partition, seed)[rank]]


def own_order(own: Tensor, rank: int, batch_size: int, seed: int, epoch: int) -> Tensor:
    """A worker's own samples in this epoch's order, one row for each whole batch."""
    order = own[torch.randperm(len(own), generator=_generator(seed, epoch, rank))]
    steps = len(own) // batch_size
    return order[: steps * batch_size].view(steps, batch_size)


def train_rows(
    available: int,
    epoch: int,
    *,
    rank: int,
    workers: int,
    batch_size: int,
    train_size: int,
    seed: int,
    own: Tensor | None = None,
) -> Tensor:
    """The samples of each of a worker's batches in an epoch."""
    if own is not None:
        return own_order(own, rank, batch_size, seed, epoch)
    return shard(epoch_order(available, train_size, seed, epoch), rank, workers, batch_size)


def train_batches(data: Samples, rows: Tensor, changes: Tensor | None = None) -> Iterator[Batch]:
    """A worker's batches of an epoch, one for each step; images are moved where `changes` are given."""
    for chosen in rows:
        inputs = data.train_inputs[chosen]
        if changes is not None:
            inputs = moved(inputs, changes[chosen])
        yield data.ready(inputs), data.train_labels[chosen].long()


def draw_changes(available: int, seed: int, epoch: int) -> Tensor:
    """For each sample whether it is mirrored, and by how much it is moved; whoever takes it.

    A random crop of the image with a margin of 4 black pixels, and a mirror image half the time.
    """
    generator = _generator(seed, epoch, MARGIN)
    places = torch.randint(0, 2 * MARGIN + 1, (available, 2), generator=generator)
    return torch.cat([places, torch.randint(0, 2, (available, 1), generator=generator)], dim=1)


def moved(images: Tensor, changes: Tensor) -> Tensor:
    """With or without a dimension for channels."""
    height, width = images.shape[-2:]
    wide = functional.pad(images, (MARGIN,) * 4)
    cut = []
    for image, (top, left, mirrored) in zip(wide, changes.tolist(), strict=True):
        part = image[..., top : top + height, left : left + width]
        cut.append(part.flip(-1) if mirrored else part)
    return torch.stack(cut)


def test_batches(
    data: Samples, *, rank: int, workers: int, test_size: int, batch_size: int | None = None
) -> Iterator[Batch]:
    """A worker's part of `test_size` test samples; the parts differ by at most one.

    They are spread evenly over the whole set: MNIST's first thousands are harder than the rest, and
    a curve scored on them would jump at its end, where all count.
    """
    _check_rank(rank, workers)
    available = len(data.test_labels)
    if not 0 < test_size <= available:
        raise DataError(f"test_size is {test_size}, there are {available} samples to test on")
    if batch_size is None:
        batch_size = max(1, min(MOST_TESTED, NUMBERS_TESTED // data.test_inputs.width))
    chosen = torch.arange(test_size)[rank::workers] * (available // test_size)
    for part in chosen.split(batch_size) if len(chosen) else ():
        yield data.ready(data.test_inputs[part]), data.test_labels[part].long()


def _check_rank(rank: int, workers: int) -> None:
    if not 0 <= rank < workers:
        raise DataError(f"rank {rank} of {workers} workers: ranks go from 0 to {workers - 1}")
