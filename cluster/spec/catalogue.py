"""What can be trained: facts of data sets, models and workloads, by name.

A new data set is a row of DATASETS and a file in workloads/data/sets with its files and reader.
Networks are in workloads/models.
"""

import math
from dataclasses import dataclass
from typing import Any

from cluster.spec.own_code import is_foreign

IMAGES_28 = "images of 1 x 28 x 28"
IMAGES_32 = "images of 3 x 32 x 32"
SENTENCES = "pairs of sentences"
WINDOW = 128
"""Bytes in a sample of a text."""
BYTES = 256
TEXT = f"text in windows of {WINDOW} bytes"
NOTHING = "nothing"
OWN = "what your own function gives"


@dataclass(frozen=True)
class DataFacts:
    """A data set: what it is, and how many samples it has."""

    summary: str
    gives: str
    """What a sample is; a model takes data sets that give what it takes."""
    classes: int
    train_size: int
    test_size: int
    predictions: int = 1
    """Labels of a sample: 1, or one for each byte of a text."""


DATASETS = {
    "mnist": DataFacts("handwritten digits", IMAGES_28, 10, 60_000, 10_000),
    "fashion-mnist": DataFacts("pieces of clothing", IMAGES_28, 10, 60_000, 10_000),
    "cifar10": DataFacts("small photographs", IMAGES_32, 10, 50_000, 10_000),
    "rte": DataFacts("whether one sentence follows from another", SENTENCES, 2, 2_490, 277),
    "sotu": DataFacts(
        "State of the Union addresses, byte by byte", TEXT, BYTES, 75_856, 8_219, predictions=WINDOW
    ),
    "none": DataFacts("no data, for synthetic models", NOTHING, 0, 10**9, 0),
}


OWN_DATA = DataFacts("a data set of your own", OWN, 0, 10**9, 10**9)
"""Only nodes read it, so how many samples it has is found out there."""


def data_facts(dataset: str) -> DataFacts:
    """Of a data set of the table, or of the user's own."""
    return OWN_DATA if is_foreign(dataset) else DATASETS[dataset]


@dataclass(frozen=True)
class ModelFacts:
    """A network, and what of it must be known without importing torch."""

    summary: str
    takes: str
    parameters: int
    """Trained parameters, which are exchanged."""
    weights: str | None = None
    """Name of the pretrained weights that it starts from."""
    has_buffers: bool = False
    """Whether it has numbers beside its parameters, such as batch-norm statistics."""


MODELS = {
    "mnist-cnn": ModelFacts("two convolutions and two dense layers", IMAGES_28, 21_840),
    "mnist-bn": ModelFacts(
        "the same with batch norm, whose statistics are buffers",
        IMAGES_28,
        21_900,
        has_buffers=True,
    ),
    "vgg11": ModelFacts(
        "VGG-11 for CIFAR-10: torchvision's vgg11_bn with one dense layer",
        IMAGES_32,
        9_231_114,
        has_buffers=True,
    ),
    "resnet18": ModelFacts(
        "ResNet-18 for CIFAR-10: torchvision's, with a first convolution of 3 x 3 and no pooling"
        " after it",
        IMAGES_32,
        11_173_962,
        has_buffers=True,
    ),
    "bert-minilm": ModelFacts(
        "BERT sequence classification, 6 layers of 384, from all-MiniLM-L6-v2",
        SENTENCES,
        22_713_986,
        weights="bert-minilm",
    ),
    "bert-base-cased": ModelFacts(
        "the same, 12 layers of 768, from bert-base-cased; weights from the internet or --data-dir",
        SENTENCES,
        108_311_810,
        weights="bert-base-cased",
    ),
    "gpt-tiny": ModelFacts("byte-level GPT, 5 layers of 128", TEXT, 1_040_768),
    "gpt-small": ModelFacts("byte-level GPT, 6 layers of 384", TEXT, 10_795_008),
}

CIFAR_COURSE = {
    "dataset": "cifar10",
    "global_batch_size": 256,
    "optimizer": "sgd",
    "lr": 0.1,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "augment": True,
    "train_size": 50_000,
    "epochs": 1,
}
"""The set-up of many courses."""

GPT_COURSE = {
    "dataset": "sotu",
    "batch_size": 16,
    "optimizer": "adamw",
    "lr": 3e-3,
    "weight_decay": 0.1,
    "train_size": 16_384,
    "test_size": 512,
    "epochs": 4,
}

WORKLOADS: dict[str, dict[str, Any]] = {
    "mnist": {"model": "mnist-cnn", "dataset": "mnist"},
    "fashion-mnist": {"model": "mnist-cnn", "dataset": "fashion-mnist"},
    "vgg11-cifar10": {"model": "vgg11", **CIFAR_COURSE},
    "resnet18-cifar10": {"model": "resnet18", **CIFAR_COURSE},
    "bert-rte": {
        "model": ("bert-base-cased", "bert-minilm"),
        "dataset": "rte",
        "batch_size": 16,
        "optimizer": "adamw",
        "lr": 2e-5,
        "weight_decay": 0.0,
        "train_size": 2_490,
        "epochs": 3,
    },
    "gpt-tiny": {"model": "gpt-tiny", **GPT_COURSE},
    "gpt-small": {"model": "gpt-small", **GPT_COURSE, "lr": 1e-3},
}
"""A model, its data and how it is usually trained: options that flags beside --workload replace.

Of several models the first whose pretrained weights are in reach is taken; the last always is.
"""


def fitting(model: str) -> list[str]:
    """The data sets that a model takes."""
    return [name for name, facts in DATASETS.items() if facts.gives == MODELS[model].takes]


def predictions_of(dataset: str) -> int:
    """Labels of a sample, each of which is predicted; 1 for a data set that is not in the table."""
    return DATASETS[dataset].predictions if dataset in DATASETS else 1


def files_of(model: str, dataset: str) -> list[str]:
    """Names of the data set and of the pretrained weights whose files a run reads."""
    weights = MODELS[model].weights if model in MODELS else None
    names = [dataset] if dataset in DATASETS and dataset != "none" else []
    return names + ([weights] if weights is not None else [])


EVEN = 1_000_000
"""The largest ALPHA; shards are identically distributed long before it."""


def parse_partition(text: str) -> tuple[str, float]:
    """iid, label or dirichlet:ALPHA; ValueError, in one line, for anything else."""
    kind, colon, number = text.partition(":")
    if text in ("iid", "label"):
        return text, math.inf if text == "iid" else 0.0
    try:
        alpha = float(number) if kind == "dirichlet" and colon else math.nan
    except ValueError:
        alpha = math.nan
    if math.isnan(alpha):
        raise ValueError("there is: iid, label, dirichlet:ALPHA, such as dirichlet:0.5")
    if not 0 < alpha <= EVEN:
        raise ValueError(f"ALPHA must be above 0 and at most {EVEN:,}, not {number}")
    return kind, alpha
