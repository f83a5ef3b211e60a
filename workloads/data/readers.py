"""Files -> samples: what is in a data set, as tensors, and how it is made ready for a network."""

from __future__ import annotations

import csv
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from workloads.data.datasets import DataError, folder_of
from workloads.data.wordpiece import WordPiece

MNIST_MEAN, MNIST_STD = 0.1307, 0.3081
"""Of the 60,000 MNIST training images, pixels scaled to 0..1."""
FASHION_MEAN, FASHION_STD = 0.2860, 0.3530
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Of the 50,000 CIFAR-10 training images, by channel."""

TOKENS = 128
"""To which a pair of sentences is cut or padded."""


class Rows:
    """Rows of several files as if they were one tensor; nothing is copied but what is asked for."""

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
    """As in the files; `ready` makes of chosen inputs what a network takes."""

    train_inputs: Rows
    train_labels: Tensor
    test_inputs: Rows
    test_labels: Tensor
    ready: Callable[[Tensor], Tensor]


def read_samples(
    dataset: str, folder: Path, train_size: int = 0, weights: str | None = None
) -> Samples:
    """`folder` holds the data set, alone or among others by name (workloads/data/prepare.py).

    Sentences are read in the vocabulary of the pretrained `weights`, which lie there too.
    """
    if dataset == "none":
        return no_data(train_size)
    if dataset == "rte":
        assert weights is not None  # only pretrained networks take sentences
        return read_rte(folder, weights)
    return READERS[dataset](folder)


def no_data(train_size: int) -> Samples:
    """For models that only pretend: blank images of one pixel that take no memory, nothing to test on."""
    blank = torch.zeros((), dtype=torch.uint8)
    return Samples(
        Rows(blank.expand(train_size, 1, 1)),
        blank.expand(train_size),
        Rows(blank.expand(0, 1, 1)),
        blank.expand(0),
        lambda images: images.float(),
    )


def read_mnist(root: Path) -> Samples:
    return _images_28(folder_of("mnist", root), MNIST_MEAN, MNIST_STD)


def read_fashion(root: Path) -> Samples:
    return _images_28(folder_of("fashion-mnist", root), FASHION_MEAN, FASHION_STD)


def _images_28(folder: Path, mean: float, std: float) -> Samples:
    """Tensors on the files themselves: workers on one machine share one copy, the page cache's."""
    return Samples(
        Rows(read_idx(folder / "train-images-idx3-ubyte")),
        read_idx(folder / "train-labels-idx1-ubyte"),
        Rows(read_idx(folder / "t10k-images-idx3-ubyte")),
        read_idx(folder / "t10k-labels-idx1-ubyte"),
        lambda images: images.unsqueeze(1).float().div_(255).sub_(mean).div_(std),
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
    return _mapped(path)[offset:].view(shape)


def _mapped(path: Path) -> Tensor:
    """Mapped privately: a read-only mount will do, nothing is copied, and a stray write stays here."""
    try:
        size_bytes = path.stat().st_size
        return torch.from_file(str(path), shared=False, size=size_bytes, dtype=torch.uint8)
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def read_cifar10(root: Path) -> Samples:
    folder = folder_of("cifar10", root)
    train = [_records(folder / f"data_batch_{number}.bin") for number in range(1, 6)]
    test = _records(folder / "test_batch.bin")
    mean, std = (torch.tensor(one).view(3, 1, 1) for one in (CIFAR_MEAN, CIFAR_STD))
    return Samples(
        Rows(*(records[:, 1:].view(-1, 3, 32, 32) for records in train)),
        torch.cat([records[:, 0] for records in train]),
        Rows(test[:, 1:].view(-1, 3, 32, 32)),
        test[:, 0].clone(),
        lambda images: images.float().div_(255).sub_(mean).div_(std),
    )


def _records(path: Path) -> Tensor:
    """A byte for the label, then the red, green and blue planes of 32 x 32 bytes."""
    mapped, size = _mapped(path), 1 + 3 * 32 * 32
    if not len(mapped) or len(mapped) % size:
        raise DataError(f"{path} is no file of CIFAR-10 records: it has {len(mapped)} bytes")
    return mapped.view(-1, size)


def read_rte(root: Path, weights: str) -> Samples:
    """Pairs of sentences as BERT's numbers; 0 where the second follows from the first, as GLUE has it."""
    folder = folder_of("rte", root)
    vocabulary = folder_of(weights, root) / "vocab.txt"
    tokenizer = WordPiece(vocabulary, lower=not weights.endswith("-cased"))
    train, train_labels = read_pairs(folder / "train.tsv", tokenizer)
    test, test_labels = read_pairs(folder / "dev.tsv", tokenizer)
    return Samples(Rows(train), train_labels, Rows(test), test_labels, lambda pairs: pairs.long())


def read_pairs(path: Path, tokenizer: WordPiece) -> tuple[Tensor, Tensor]:
    """n x 2 x 128 numbers, and n labels."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        pairs = [tokenizer.encode_pair(r["sentence1"], r["sentence2"], TOKENS) for r in rows]
        labels = [("entailment", "not_entailment").index(row["label"]) for row in rows]
    except (OSError, KeyError, ValueError, csv.Error) as error:
        raise DataError(f"{path} is no file of labelled sentence pairs: {error}") from error
    return torch.tensor(pairs, dtype=torch.int32), torch.tensor(labels, dtype=torch.uint8)


READERS: dict[str, Callable[[Path], Samples]] = {
    "mnist": read_mnist,
    "fashion-mnist": read_fashion,
    "cifar10": read_cifar10,
}
