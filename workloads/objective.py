"""What is minimised, and what counts as correct: cross-entropy, or the user's own loss."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor
from torch.nn import functional

from cluster.spec.experiment import Experiment
from cluster.spec.own_code import is_foreign, is_own
from workloads.own.learning import load_loss

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Objective:
    """Losses of a network's outputs for a batch, against its labels."""

    mean: Loss
    """Over the batch."""
    total: Loss
    """Over the batch, summed."""

    one_label: bool = False
    """Whether only samples with one label have an accuracy, as where data is the user's own."""

    def correct(self, outputs: Tensor, labels: Tensor) -> int | None:
        """How many labels have the highest score; None where outputs are no scores of classes."""
        if labels.is_floating_point() or (self.one_label and labels.ndim != 1):
            return None
        if outputs.ndim < 2 or outputs.shape[:1] + outputs.shape[2:] != labels.shape:
            return None
        return int((outputs.argmax(1) == labels).sum())

    def count(self, outputs: Tensor, labels: Tensor) -> float:
        """The same as a number that can be added up: NaN for None."""
        found = self.correct(outputs, labels)
        return math.nan if found is None else found


CROSS_ENTROPY = Objective(
    functional.cross_entropy,
    lambda outputs, labels: functional.cross_entropy(outputs, labels, reduction="sum"),
)


def objective_of(spec: Experiment) -> Objective:
    one_label = is_foreign(spec.dataset)
    if not is_own(spec.loss):
        return replace(CROSS_ENTROPY, one_label=one_label)
    loss = load_loss(spec)
    return Objective(loss, lambda scores, labels: loss(scores, labels) * labels.numel(), one_label)
