"""Samples as tensors: what a worker trains and tests on."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from cluster.spec.experiment import Experiment
from workloads.data.dataset import DataError
from workloads.data.sets import DATASETS
from workloads.data.tokens import TOKENS, data_folder


class Rows:
    """Rows of several files as if they were one tensor; only the chosen rows are copied."""

    def __init__(self, *parts: Tensor) -> None:
        self.parts = parts
        self.begins = [sum(len(part) for part in parts[:k]) for k in range(len(parts))]

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return math.prod(self.parts[0].shape[1:])

    def __getitem__(self, chosen: Tensor) -> Tensor:
        if len(self.parts) == 1:
            return self.parts[0][chosen]
        rows = self.parts[0].new_empty(len(chosen), *self.parts[0].shape[1:])
        for part, begin in zip(self.parts, self.begins, strict=True):
            here = (chosen >= begin) & (chosen < begin + len(part))
            rows[here] = part[chosen[here] - begin]
        return rows


class Samples(NamedTuple):
    """Inputs and labels as stored; `ready` converts chosen inputs to a network's input."""

    train_inputs: Rows
    train_labels: Tensor
    test_inputs: Rows
    test_labels: Tensor
    ready: Callable[[Tensor], Tensor]


def read_samples(spec: Experiment, root: Path) -> Samples:
    """The samples of a run; `root` is the folder that prepare_all() gave (prepare.py)."""
    if spec.dataset == "none":
        return blank_samples(spec.train_size)
    read = DATASETS[str(spec.dataset)].read or read_tokens
    return read(data_folder(spec, root))


def blank_samples(count: int) -> Samples:
    """For emulated compute: blank images of one pixel that use no memory, and no test data."""
    blank = torch.zeros((), dtype=torch.uint8)
    return Samples(
        Rows(blank.expand(count, 1, 1)),
        blank.expand(count),
        Rows(blank.expand(0, 1, 1)),
        blank.expand(0),
        lambda images: images.float(),
    )


def read_tokens(folder: Path) -> Samples:
    """Sentence pairs as the host has encoded them: n x 2 x 128 numbers, and n labels."""
    import numpy

    try:
        with numpy.load(folder / TOKENS) as arrays:
            train, train_labels, test, test_labels = (
                torch.from_numpy(arrays[name])
                for name in ("train", "train_labels", "test", "test_labels")
            )
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"{folder / TOKENS} cannot be read: {error}") from error
    return Samples(Rows(train), train_labels, Rows(test), test_labels, lambda pairs: pairs.long())


def map_file(path: Path) -> Tensor:
    """A file's bytes, mapped privately: nothing is copied, and writes never reach the file."""
    try:
        size_bytes = path.stat().st_size
        return torch.from_file(str(path), shared=False, size=size_bytes, dtype=torch.uint8)
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
