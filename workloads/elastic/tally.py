"""What a worker without a barrier has read of an epoch, as part of its state.

Steps of all workers are numbered through all epochs (workloads/data/deal.py). Which of them a
worker has completed, or which are in a server's model, is kept together with the state in which
they are: so it is true whenever the training process is killed.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

READ, SAMPLES = "tally.read", "tally.samples"


class Tally:
    def __init__(self, per_epoch: int) -> None:
        """`per_epoch`: numbers of an epoch."""
        self._per_epoch, self._epoch = per_epoch, 0
        self._read = torch.zeros(per_epoch, dtype=torch.uint8)
        self._samples = torch.zeros(1, dtype=torch.int64)

    @property
    def samples(self) -> int:
        """Of the whole run."""
        return int(self._samples)

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return {READ: self._read, SAMPLES: self._samples}

    def begin(self, epoch: int) -> None:
        """An epoch, or a generation."""
        self._epoch = epoch
        self._read.zero_()

    def note(self, epoch: int, numbers: Sequence[int], samples: int) -> None:
        if epoch != self._epoch:
            self.begin(epoch)
        for number in numbers:
            self._read[(number - 1) % self._per_epoch] = 1
        self._samples += samples


def numbers_in(read: Tensor | None, epoch: int) -> list[int]:
    """Of the steps that a tally has of this epoch."""
    if read is None:
        return []
    before = (epoch - 1) * len(read)
    return [before + 1 + int(at) for at in read.nonzero()]
