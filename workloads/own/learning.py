"""A model, data and loss of the user's own: what their functions return, checked.

    --model FILE.py:NAME      NAME() gives an nn.Module, with the same weights on every worker
    --dataset FILE.py:NAME    NAME() gives (train, test), the same on every worker: each a pair of
                              tensors, inputs and labels, or a torch Dataset of such samples
    --loss FILE.py:NAME       NAME(outputs, labels) gives the mean loss of a batch

docs/your-own-model.md has examples.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from cluster.spec.experiment import Experiment
from cluster.spec.options import HELD_OUT
from cluster.spec.own_code import is_foreign, is_own
from workloads.data.batches import left_out
from workloads.data.dataset import DataError
from workloads.data.samples import Rows, Samples, read_samples
from workloads.own import libraries
from workloads.own.loading import OwnCodeError, load

EXPECTED = "(train, test), each (inputs, labels) as tensors or a torch Dataset of such samples"


def make_model(spec: Experiment) -> nn.Module:
    """Its random weights are those of the run's seed."""
    torch.manual_seed(spec.seed)
    made = load(spec, "model")() if is_own(spec.model) else libraries.make_model(spec)
    return _checked(made, spec)


def _checked(model: object, spec: Experiment) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise OwnCodeError(f"{spec.model} gave {_kind(model)}, not a torch.nn.Module")
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
        raise OwnCodeError(f"{spec.model} has lazy layers: give them their sizes")
    if not any(p.requires_grad for p in model.parameters()):
        raise OwnCodeError(f"{spec.model} has no parameter to train")
    return model


def load_loss(spec: Experiment) -> Callable[[Tensor, Tensor], Tensor]:
    function = load(spec, "loss")

    def loss(outputs: Tensor, labels: Tensor) -> Tensor:
        value = function(outputs, labels)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise OwnCodeError(f"{spec.loss} gave {_kind(value)}, not a tensor with one number")
        return value.reshape(())

    return loss


@functools.lru_cache(maxsize=1)  # virtual workers share them
def samples_of(spec: Experiment, data_root: Path) -> Samples:
    """The samples of a run: of a data set of the table, or of the user's own.

    Inputs of a Dataset are read when they are needed.
    """
    found = _samples_of(spec, data_root)
    return held_out(found, spec.train_size) if spec.score_on == HELD_OUT else found


def held_out(data: Samples, train_size: int) -> Samples:
    """With training samples that are left out in place of the test set, at most as many."""
    available = len(data.train_labels)
    rows = left_out(available, train_size)[: max(1, len(data.test_labels))]
    if not len(rows):
        raise DataError(f"score_on held-out: train_size takes all {available:,} training samples")
    inputs = Rows(data.train_inputs[rows])
    return data._replace(test_inputs=inputs, test_labels=data.train_labels[rows])


def _samples_of(spec: Experiment, data_root: Path) -> Samples:
    if not is_foreign(spec.dataset):
        return read_samples(spec, data_root)
    if is_own(spec.dataset):
        returned = load(spec, "dataset")()
    else:
        returned = libraries.open_dataset(spec, data_root)
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise OwnCodeError(f"{spec.dataset} gave {_kind(returned)}, not {EXPECTED}")
    train, test = (_part(part, spec.dataset) for part in returned)
    if not len(train[1]):
        raise OwnCodeError(f"{spec.dataset} gave no training samples")
    return Samples(*train, *test, _ready)


def _ready(inputs: Tensor) -> Tensor:
    """As they are; whole numbers, such as tokens, as torch's embeddings take them."""
    is_small = inputs.dtype in (torch.int32, torch.int16)
    return inputs.long() if is_small else inputs


def _part(part: Any, name: str) -> tuple[Rows, Tensor]:
    if isinstance(part, Dataset):
        return _of_dataset(part, name)
    if not isinstance(part, tuple | list) or len(part) != 2:
        raise OwnCodeError(f"{name} gave {_kind(part)} as a part, not {EXPECTED}")
    inputs, labels = part
    for tensor in (inputs, labels):
        if not isinstance(tensor, Tensor) or not tensor.ndim:
            raise OwnCodeError(f"{name} gave {_kind(tensor)} in a part, not {EXPECTED}")
    if len(inputs) != len(labels):
        raise OwnCodeError(f"{name} gave {len(inputs):,} inputs with {len(labels):,} labels")
    return Rows(inputs), labels


class ReadRows(Rows):
    """Inputs of a Dataset, read one by one when they are chosen."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        super().__init__(_tensor(dataset[0][0])[None])

    def __getitem__(self, chosen: Tensor) -> Tensor:
        return torch.stack([_tensor(self.dataset[place][0]) for place in chosen.tolist()])


def _of_dataset(dataset: Any, name: str) -> tuple[Rows, Tensor]:
    """Labels are in `targets`, as in torchvision's data sets, or read from all samples."""
    try:
        size = len(dataset)
        if not size:
            return Rows(torch.empty(0, 1)), torch.empty(0, dtype=torch.long)
        labels = getattr(dataset, "targets", None)
        if labels is None or len(labels) != size:
            labels = [dataset[place][1] for place in range(size)]
        inputs = ReadRows(dataset)
    except (TypeError, IndexError) as error:
        problem = f"{name} gave a Dataset whose samples are no pairs of input and label"
        raise OwnCodeError(f"{problem}: {error}") from error
    if isinstance(labels, list) and isinstance(labels[0], Tensor):
        return inputs, torch.stack(labels)
    return inputs, torch.as_tensor(labels)


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else torch.as_tensor(value)


def _kind(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{type(value).__name__}"
