"""A worker's shard: the samples that it trains on."""

from collections.abc import Iterator

from torch import Tensor

from cluster.spec.experiment import Experiment
from workloads.data.batches import Batch, draw_augmentation, own_samples, train_batches, train_rows
from workloads.data.samples import Samples


class Shard:
    def __init__(self, spec: Experiment, rank: int, data: Samples) -> None:
        self.spec, self.rank, self.data = spec, rank, data
        self.own = own_samples(
            data.train_labels,
            rank=rank,
            workers=spec.workers,
            train_size=spec.train_size,
            partition=spec.partition,
            seed=spec.seed,
        )

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, one for each step."""
        augmentation = None
        if self.spec.augment:
            augmentation = draw_augmentation(len(self.data.train_labels), self.spec.seed, epoch)
        return train_batches(self.data, self.rows(epoch), augmentation)

    def rows(self, epoch: int) -> Tensor:
        """The samples of each batch; with --shuffle fixed every epoch has the first one's order."""
        spec = self.spec
        return train_rows(
            len(self.data.train_labels),
            1 if spec.shuffle == "fixed" else epoch,
            rank=self.rank,
            workers=spec.workers,
            batch_size=spec.batch_size,
            train_size=spec.train_size,
            seed=spec.seed,
            own=self.own,
        )

    def label_counts(self) -> list[int] | None:
        """How often each label occurs in the first epoch; None without labels."""
        if self.spec.dataset == "none":
            return None
        labels = self.data.train_labels[self.rows(1).flatten()].long()
        counts: list[int] = labels.bincount(
            minlength=int(self.data.train_labels.max()) + 1
        ).tolist()
        return counts
