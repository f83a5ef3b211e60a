"""What one worker trains on."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from cluster.spec.experiment import Experiment
from workloads.data.batches import Batch, draw_changes, own_samples, train_batches, train_rows
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
        """One for each step."""
        changes = None
        if self.spec.augment:
            changes = draw_changes(len(self.data.train_labels), self.spec.seed, epoch)
        return train_batches(self.data, self.rows(epoch), changes)

    def rows(self, epoch: int) -> Tensor:
        """The samples of each batch. With a fixed shuffle every epoch has the order of the first."""
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
        """How often each label comes in the first epoch; None where labels mean nothing."""
        if self.spec.dataset == "none":
            return None
        labels = self.data.train_labels[self.rows(1).flatten()].long()
        counts: list[int] = labels.bincount(
            minlength=int(self.data.train_labels.max()) + 1
        ).tolist()
        return counts
