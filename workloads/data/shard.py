"""A worker's shard: the samples that it trains on."""

from collections.abc import Iterator

from torch import Tensor

from cluster.spec.experiment import Experiment
from workloads.data.batches import (
    Batch,
    draw_augmentation,
    epoch_order,
    kept,
    own_order,
    shard,
    train_batches,
)
from workloads.data.partition import shards
from workloads.data.samples import Samples


class Shard:
    def __init__(self, spec: Experiment, rank: int, data: Samples) -> None:
        self.spec, self.rank, self.data = spec, rank, data
        self.own: Tensor | None = None
        """The worker's samples in all epochs; None for iid, which shuffles over all workers."""
        if spec.partition != "iid":
            subset = kept(len(data.train_labels), spec.train_size)
            labels = data.train_labels[subset]
            self.own = subset[shards(labels, spec.workers, spec.partition, spec.seed)[rank]]

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, one for each step."""
        augmentation = None
        if self.spec.augment:
            augmentation = draw_augmentation(len(self.data.train_labels), self.spec.seed, epoch)
        return train_batches(self.data, self.rows(epoch), augmentation)

    def rows(self, epoch: int) -> Tensor:
        """The samples of each batch; with --shuffle fixed every epoch has the first one's order."""
        spec = self.spec
        epoch = 1 if spec.shuffle == "fixed" else epoch
        if self.own is not None:
            return own_order(self.own, self.rank, spec.batch_size, spec.seed, epoch)
        order = epoch_order(len(self.data.train_labels), spec.train_size, spec.seed, epoch)
        return shard(order, self.rank, spec.workers, spec.batch_size)

    def label_counts(self) -> list[int] | None:
        """How often each label occurs in the first epoch; None without labels."""
        if self.spec.dataset == "none":
            return None
        labels = self.data.train_labels[self.rows(1).flatten()].long()
        classes = int(self.data.train_labels.max()) + 1
        counts: list[int] = labels.bincount(minlength=classes).tolist()
        return counts
