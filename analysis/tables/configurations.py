"""Runs that differ only in their seed are one configuration: its runs are repetitions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import pandas as pd

from analysis.tables.columns import OPTIONS
from analysis.tables.labels import differing, labels, several_sizes
from analysis.tables.load import Runs
from cluster.spec.catalogue import DATASETS

SAME = (
    *("strategy", "workers", "passes", "schedule", "engine", "dataset"),
    *(option for option in OPTIONS if option != "seed"),
)
STANDARD_ERRORS = 2
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Configuration:
    label: str
    runs: pd.DataFrame
    """Its rows of the table of runs."""

    @cached_property
    def row(self) -> pd.Series[Any]:
        """The first run's: all options but the seed are those of the others."""
        return self.runs.iloc[0]

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        return tuple(int(number) for number in self.runs.index)

    @cached_property
    def strategy(self) -> str:
        return str(self.row["strategy"])

    @cached_property
    def is_virtual(self) -> bool:
        """Whether its workers share a node: its bytes and times are predicted."""
        return bool(self.row["virtual"] is not pd.NA and self.row["virtual"])

    @cached_property
    def workers(self) -> int:
        return int(self.row["workers"])

    def values(self, options: Sequence[str]) -> tuple[str, ...]:
        return tuple(str(self.row[option]) for option in options)

    def mean(self, column: str) -> float | None:
        """Over its runs, of those that know it."""
        return mean_of(self.runs[column])

    def median(self, column: str) -> float | None:
        """Over its runs: one contended run of several does not change it much."""
        known = self.runs[column].dropna().astype(float)
        return None if known.empty else float(known.median())

    def means(self, columns: Iterable[str]) -> dict[str, float | None]:
        """By column; under NAME_sd the standard deviation over seeds, None with one run."""
        found: dict[str, float | None] = {}
        for column in columns:
            known = self.runs[column].dropna().astype(float)
            found[column] = None if known.empty else float(known.mean())
            found[f"{column}_sd"] = float(known.std()) if len(known) > 1 else None
        return found

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """What a frame of Runs holds of its runs."""
        return frame[frame["number"].isin(self.numbers)]

    @property
    def is_chance_level(self) -> bool:
        """Of its mean accuracy."""
        accuracy = self.mean("accuracy")
        return accuracy is not None and is_chance_level(self.row, accuracy)

    @property
    def task(self) -> str:
        """What is learned: only accuracies of the same task can be compared."""
        dataset = self.row["dataset"]
        known = not pd.isna(dataset) and dataset not in ("none", str(self.row["model"]))
        return f"{self.row['model']} on {dataset}" if known else str(self.row["model"])


def find_configurations(runs: Runs) -> list[Configuration]:
    """Of the completed runs, in the order of their first.

    Labels say what tells a configuration from the others of its task, and then the model, or the
    whole task.
    """
    groups = runs.completed.groupby(_keys(runs.completed), sort=False, dropna=False)
    found = [Configuration("", members) for _, members in groups]
    tasks = grouped(found, lambda configuration: configuration.task)
    models = [str(members[0].row["model"]) for members in tasks.values()]
    names = {}
    sizes = several_sizes(runs.table)
    for (task, members), model in zip(tasks.items(), models, strict=True):
        suffix = f", {model if models.count(model) == 1 else task}" if len(tasks) > 1 else ""
        for member in named(members, with_workers=sizes):
            names[member.numbers] = member.label + suffix
    return [dataclasses.replace(member, label=names[member.numbers]) for member in found]


def _keys(runs: pd.DataFrame) -> list[str]:
    """Time dilation is no other configuration, unless a session compares several of them."""
    repeated = runs.groupby([*SAME, "seed", "session"], dropna=False)["dilation"]
    return [*SAME, "dilation"] if (repeated.nunique() > 1).any() else list(SAME)


def named(
    configurations: Iterable[Configuration], *, with_workers: bool = True
) -> list[Configuration]:
    """With labels that say what tells these apart, and no more."""
    members = list(configurations)
    if not members:
        return []
    rows = [member.row for member in members]
    table = pd.DataFrame(rows)
    options = [option for option in differing(table) if option != "seed"]
    texts = labels(rows, options, with_workers=with_workers)
    if table["engine"].nunique() > 1:
        texts = [f"{text}, {row['engine']}" for text, row in zip(texts, rows, strict=True)]
    texts = _with_dilations(texts, [float(row["dilation"]) for row in rows])
    return [
        dataclasses.replace(member, label=text) for member, text in zip(members, texts, strict=True)
    ]


def _with_dilations(texts: Sequence[str], dilations: Sequence[float]) -> list[str]:
    """Labels that are equal, with the dilation, where that tells them apart."""
    same = grouped(zip(texts, dilations, strict=True), lambda pair: pair[0])
    apart = {text for text, pairs in same.items() if len(set(pairs)) == len(pairs) > 1}
    return [
        f"{text}, dilation {dilation:g}" if text in apart else text
        for text, dilation in zip(texts, dilations, strict=True)
    ]


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """In the order of their first."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def mean_of(values: pd.Series[Any]) -> float | None:
    known = values.dropna().astype(float)
    return None if known.empty else float(known.mean())


def samples_per_epoch(run: pd.Series[Any]) -> float:
    """Of all workers together, without the incomplete batches, which are dropped."""
    epochs = 1 if pd.isna(run["epochs"]) else run["epochs"]
    return float(run["steps"] / epochs * run["batch_size"] * run["workers"])


def is_chance_level(run: pd.Series[Any], accuracy: float) -> bool:
    """Whether guessing could reach this accuracy, within two standard errors of the test set."""
    facts = DATASETS.get(str(run["dataset"]))
    if facts is None or not facts.classes:
        return False
    test_size = run["test_size"]
    samples = facts.test_size if pd.isna(test_size) else int(test_size)
    share = 1 / facts.classes
    return accuracy <= share + STANDARD_ERRORS * math.sqrt(share * (1 - share) / samples)
