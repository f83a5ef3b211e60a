"""RTE: does the second sentence follow from the first? 2 classes (GLUE, Wang et al. 2019).

In no package registry.
"""

import csv
from pathlib import Path

from workloads.data.dataset import DataError, Dataset, Sentences, parse_files

LABELS = ("entailment", "not_entailment")
"""Numbered as GLUE does."""


def read_sentences(folder: Path) -> tuple[Sentences, Sentences]:
    return read_pairs(folder / "train.tsv"), read_pairs(folder / "dev.tsv")


def read_pairs(path: Path) -> Sentences:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        return [(row["sentence1"], row["sentence2"], LABELS.index(row["label"])) for row in rows]
    except (OSError, KeyError, ValueError, csv.Error) as error:
        raise DataError(f"{path} is no file of labelled sentence pairs: {error}") from error


DATASET = Dataset(
    name="rte",
    files=parse_files("""
41e3a9b063433392343fad9e962cf2f58b681c78d8f71592f4186f0837246c5c   846226 train.tsv
80230dfa1347282e7b532b06a1004a76a710087541189bf874223ddf0e3819fb    90343 dev.tsv
"""),
    archives=("https://dl.fbaipublicfiles.com/glue/data/RTE.zip",),
    usual_folder="RTE",
    read_sentences=read_sentences,
)
