"""Data for a worker: tensors on the files, its shard of every epoch, its part of the test set.

The law that makes worker counts comparable: what N workers with batches of b take together in a
step is exactly what one worker with batches of N x b takes. Who takes what is a pure function of
seed, epoch and rank, so no worker has to ask another.
"""

import hashlib
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from workloads.datasets import DataError

MEAN, STD = 0.1307, 0.3081
"""Of the 60,000 MNIST training images, pixels scaled to 0..1."""

SUBSET_SEED = 20_120_501
"""Chooses which samples a smaller train_size keeps. Not the experiment's seed: repeats with other
seeds must train on the same samples, or their spread would show the luck of the draw. Smaller
subsets are parts of larger ones."""

Batch = tuple[Tensor, Tensor]
"""Images, float32, n x 1 x 28 x 28, normalised; labels, int64, n."""


class Mnist(NamedTuple):
    """uint8 throughout, as in the files."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load_mnist(folder: Path | str) -> Mnist:
    """Tensors on the files themselves: workers on one machine share one copy, the page cache's."""
    return Mnist(
        read_idx(Path(folder, "train-images-idx3-ubyte")),
        read_idx(Path(folder, "train-labels-idx1-ubyte")),
        read_idx(Path(folder, "t10k-images-idx3-ubyte")),
        read_idx(Path(folder, "t10k-labels-idx1-ubyte")),
    )


def read_idx(path: Path) -> Tensor:
    """IDX of bytes: 0, 0, 8, number of dimensions; each in 4 bytes, big-endian; the values."""
    try:
        with open(path, "rb") as file:
            zeros, kind, dimensions = struct.unpack(">HBB", file.read(4))
            shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        offset, size_bytes = 4 + 4 * dimensions, path.stat().st_size
    except (OSError, struct.error) as error:
        raise DataError(f"{path} cannot be read as an IDX file: {error}") from error
    if (zeros, kind) != (0, 8) or size_bytes != offset + math.prod(shape):
        raise DataError(
            f"{path} is not an IDX file of bytes: header {zeros, kind, *shape}, {size_bytes} bytes"
        )
    # Mapped privately: a read-only mount will do, nothing is copied, and a stray write stays here.
    mapped = torch.from_file(str(path), shared=False, size=size_bytes, dtype=torch.uint8)
    return mapped[offset:].view(shape)


def epoch_order(available: int, train_size: int, seed: int, epoch: int) -> Tensor:
    """The samples of an epoch in this epoch's order, the same on every worker."""
    if not 0 < train_size <= available:
        raise DataError(f"train_size is {train_size}, there are {available} samples to train on")
    subset = torch.randperm(available, generator=_generator(SUBSET_SEED))[:train_size]
    return subset[torch.randperm(train_size, generator=_generator(seed, epoch))]


def _generator(*numbers: int) -> torch.Generator:
    """Hashed, because with a sum seed 1 would repeat the orders of seed 0 one epoch later."""
    digest = hashlib.sha256(repr(numbers).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))


def shard(order: Tensor, rank: int, workers: int, batch_size: int) -> Tensor:
    """What a worker takes of an epoch: order[rank::workers], one row for each whole batch."""
    _check_rank(rank, workers)
    steps = len(order) // (workers * batch_size)
    return order[: steps * batch_size * workers].view(steps, batch_size, workers)[:, :, rank]


def normalise(images: Tensor) -> Tensor:
    """uint8, n x 28 x 28 -> float32, n x 1 x 28 x 28, mean 0, standard deviation 1."""
    return images.unsqueeze(1).float().div_(255).sub_(MEAN).div_(STD)


def train_batches(
    data: Mnist, epoch: int, *, rank: int, workers: int, batch_size: int, train_size: int, seed: int
) -> Iterator[Batch]:
    """A worker's batches of an epoch, one for each step."""
    order = epoch_order(len(data.train_labels), train_size, seed, epoch)
    for chosen in shard(order, rank, workers, batch_size):
        yield normalise(data.train_images[chosen]), data.train_labels[chosen].long()


def test_batches(
    data: Mnist, *, rank: int, workers: int, test_size: int, batch_size: int = 500
) -> Iterator[Batch]:
    """A worker's part of `test_size` test images; the parts differ by at most one image.

    The images are spread evenly over the whole set: its first thousands are harder than the rest, and
    a curve scored on them would jump at its end, where all images count.
    """
    _check_rank(rank, workers)
    available = len(data.test_labels)
    if not 0 < test_size <= available:
        raise DataError(f"test_size is {test_size}, there are {available} samples to test on")
    chosen = torch.arange(test_size)[rank::workers] * (available // test_size)
    for part in chosen.split(batch_size) if len(chosen) else ():
        yield normalise(data.test_images[part]), data.test_labels[part].long()


def _check_rank(rank: int, workers: int) -> None:
    if not 0 <= rank < workers:
        raise DataError(f"rank {rank} of {workers} workers: ranks go from 0 to {workers - 1}")
