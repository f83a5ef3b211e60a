"""A worker's batches: its shard of every epoch, and its part of the test set.

The law that makes worker counts comparable: in each step, N workers with batches of b together use
the samples of one worker with batches of N x b. Which samples a worker uses is a pure function of
seed, epoch and rank, so workers need no communication for it.
"""

import hashlib
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from cluster.spec.experiment import Experiment
from workloads.data.dataset import DataError
from workloads.data.partition import shards
from workloads.data.samples import Samples

SUBSET_SEED = 20_120_501
"""Selects the samples of a smaller train_size or test_size. Not the experiment's seed: repeats with
other seeds must use the same samples, or their spread would include the selection's. Smaller
subsets are contained in larger ones."""

MARGIN = 4
"""Largest shift of an augmented image, in pixels."""

MOST_TESTED, NUMBERS_TESTED = 500, 400_000
"""Limits of a test batch, in samples and in numbers: large images have large activations."""

MOST_CLASSES = 10_000
"""Whose shards are counted by label."""

Batch = tuple[Tensor, Tensor]
"""A network's inputs, and n labels (int64), or n rows of them."""


def epoch_order(available: int, train_size: int, seed: int, epoch: int) -> Tensor:
    """The samples of an epoch in this epoch's order, the same on every worker."""
    subset = kept(available, train_size)
    return subset[torch.randperm(train_size, generator=_generator(seed, epoch))]


def kept(available: int, train_size: int) -> Tensor:
    """The samples of this train_size."""
    if not 0 < train_size <= available:
        raise DataError(
            f"train_size is {train_size:,}, there are {available:,} samples to train on: use"
            f" --train-size {available} or less"
        )
    return _subset(available, train_size)


def left_out(available: int, train_size: int) -> Tensor:
    """The samples that this train_size leaves out, in random order."""
    return _subset(available, available)[train_size:]


def _subset(available: int, size: int) -> Tensor:
    return torch.randperm(available, generator=_generator(SUBSET_SEED))[:size]


def _generator(*numbers: int) -> torch.Generator:
    """A generator seeded by a hash: with a sum, seeds 0 and 1 would have orders in common."""
    digest = hashlib.sha256(repr(numbers).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))


def shard(order: Tensor, rank: int, workers: int, batch_size: int) -> Tensor:
    """A worker's samples of an epoch, order[rank::workers], one row for each whole batch."""
    _check_rank(rank, workers)
    steps = len(order) // (workers * batch_size)
    return order[: steps * batch_size * workers].view(steps, batch_size, workers)[:, :, rank]


def own_order(own: Tensor, rank: int, batch_size: int, seed: int, epoch: int) -> Tensor:
    """A worker's own samples in this epoch's order, one row for each whole batch."""
    order = own[torch.randperm(len(own), generator=_generator(seed, epoch, rank))]
    steps = len(own) // batch_size
    return order[: steps * batch_size].view(steps, batch_size)


def train_batches(
    data: Samples, rows: Iterable[Tensor], augmentation: Tensor | None = None
) -> Iterator[Batch]:
    """A worker's batches of an epoch, one for each step, with or without augmentation."""
    for chosen in rows:
        inputs = data.train_inputs[chosen]
        if augmentation is not None:
            inputs = augment(inputs, augmentation[chosen])
        yield data.ready(inputs), _targets(data.train_labels[chosen])


class Shard:
    """The samples that a worker trains on."""

    def __init__(self, spec: Experiment, rank: int, data: Samples) -> None:
        self.spec, self.rank, self.data = spec, rank, data
        self.owned: list[Tensor] | None = None
        """By rank, a worker's samples in all epochs; None for iid, which shuffles over all."""
        if spec.partition != "iid":
            if data.train_labels.ndim != 1 or not _are_classes(data.train_labels):
                raise DataError(f"partition {spec.partition} needs labels that are classes")
            subset = kept(len(data.train_labels), spec.train_size)
            labels = data.train_labels[subset]
            places = shards(labels, spec.workers, spec.partition, spec.seed)
            self.owned = [subset[of_worker] for of_worker in places]

    def batches(self, epoch: int, rows: Iterable[Tensor] | None = None) -> Iterator[Batch]:
        """The batches of an epoch, one for each step: the worker's own, or of these rows."""
        augmentation = None
        if self.spec.augment:
            augmentation = draw_augmentation(len(self.data.train_labels), self.spec.seed, epoch)
        return train_batches(self.data, self.rows(epoch) if rows is None else rows, augmentation)

    def rows(self, epoch: int) -> Tensor:
        """The samples of each batch; with --shuffle fixed every epoch has the first one's order."""
        spec = self.spec
        epoch = 1 if spec.shuffle == "fixed" else epoch
        if self.owned is not None:
            own = self.owned[self.rank]
            return own_order(own, self.rank, spec.batch_size, spec.seed, epoch)
        order = epoch_order(len(self.data.train_labels), spec.train_size, spec.seed, epoch)
        return shard(order, self.rank, spec.workers, spec.batch_size)

    def deck(self, epoch: int) -> tuple[Tensor, Tensor | None]:
        """The samples of an epoch that all workers together read, in order; and by sample, where
        every worker has samples of its own, the rank whose it is."""
        spec, available = self.spec, len(self.data.train_labels)
        epoch = 1 if spec.shuffle == "fixed" else epoch
        if self.owned is None:
            used = spec.steps_per_epoch * spec.batch_size * spec.workers
            return epoch_order(available, spec.train_size, spec.seed, epoch)[:used], None
        owners = torch.full((available,), -1)
        orders = []
        for rank, own in enumerate(self.owned):
            order = own_order(own, rank, spec.batch_size, spec.seed, epoch).flatten()
            owners[order] = rank
            orders.append(order)
        return torch.cat(orders), owners

    def label_counts(self) -> list[int] | None:
        """How often each label occurs in the first epoch; None without labels."""
        if self.spec.dataset == "none" or not _are_classes(self.data.train_labels):
            return None
        labels = self.data.train_labels[self.rows(1).flatten()].flatten().long()
        classes = int(self.data.train_labels.max()) + 1
        if classes > MOST_CLASSES:
            return None
        counts: list[int] = labels.bincount(minlength=classes).tolist()
        return counts


def draw_augmentation(available: int, seed: int, epoch: int) -> Tensor:
    """Shift (2 numbers) and mirroring (0 or 1) of each sample, whichever worker uses it.

    A random crop of the image with a margin of 4 black pixels, mirrored with probability 1/2.
    """
    generator = _generator(seed, epoch, MARGIN)
    places = torch.randint(0, 2 * MARGIN + 1, (available, 2), generator=generator)
    return torch.cat([places, torch.randint(0, 2, (available, 1), generator=generator)], dim=1)


def augment(images: Tensor, augmentation: Tensor) -> Tensor:
    """Shift and mirror images, with or without a dimension for channels."""
    height, width = images.shape[-2:]
    wide = functional.pad(images, (MARGIN,) * 4)
    cropped = []
    for image, (top, left, mirrored) in zip(wide, augmentation.tolist(), strict=True):
        part = image[..., top : top + height, left : left + width]
        cropped.append(part.flip(-1) if mirrored else part)
    return torch.stack(cropped)


def test_batches(
    data: Samples, *, rank: int, workers: int, test_size: int, batch_size: int | None = None
) -> Iterator[Batch]:
    """A worker's part of `test_size` test samples; the parts differ by at most one.

    They are a random choice, the same for all runs: MNIST's first thousands are harder than the
    rest, so a curve scored on them would jump at its end, where all samples are scored.
    """
    _check_rank(rank, workers)
    available = len(data.test_labels)
    if not 0 < test_size <= available:
        raise DataError(f"test_size is {test_size}, there are {available} samples to test on")
    if batch_size is None:
        batch_size = max(1, min(MOST_TESTED, NUMBERS_TESTED // data.test_inputs.width))
    chosen = _subset(available, test_size).sort().values[rank::workers]
    for part in chosen.split(batch_size) if len(chosen) else ():
        yield data.ready(data.test_inputs[part]), _targets(data.test_labels[part])


def _targets(labels: Tensor) -> Tensor:
    """Classes as int64; numbers to be met by a loss of the user's own stay as they are."""
    return labels if labels.is_floating_point() else labels.long()


def _are_classes(labels: Tensor) -> bool:
    return not labels.is_floating_point() and int(labels.min()) >= 0


def _check_rank(rank: int, workers: int) -> None:
    if not 0 <= rank < workers:
        raise DataError(f"rank {rank} of {workers} workers: ranks go from 0 to {workers - 1}")
