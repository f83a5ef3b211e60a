"""What a run is called in tables and figures: its strategy, and what tells it from the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from analysis.tables.columns import OPTIONS
from cluster.observe.units import link_text, option_text
from cluster.spec.experiment import Experiment
from cluster.spec.strategies import STRATEGIES, follows_from_strategy, own_defaults


class Words(NamedTuple):
    text: Callable[[Any], str]
    free: str = ""
    """Where it is not set."""


def _count(noun: str) -> Callable[[Any], str]:
    return lambda value: f"{value:,} {noun}{'' if value == 1 else 's'}"


ENGINES = {"netns": "network namespaces", "docker": "Docker containers"}
SHARED = {
    "model": Words(str),
    "dataset": Words(lambda name: "" if name == "none" else f"on {name}"),
    "workers": Words(_count("worker")),
    "link": Words(lambda link: f"{link_text(link)} links", "unlimited links"),
    "epochs": Words(_count("epoch")),
    "train_size": Words("{:,} training samples".format),
    "batch_size": Words("batch size {} per worker".format),
    "engine": Words(lambda name: ENGINES.get(name, f"engine {name}")),
}
"""Options that the overview names where all runs share them."""


DEFAULTS = {field.name: field.default for field in dataclasses.fields(Experiment)}
QUANTITIES = (
    *("model", "epochs", "train_size", "batch_size", "lr", "momentum", "seed"),
    "local_steps",
)


def differing(runs: pd.DataFrame) -> list[str]:
    """The options that tell these runs apart."""
    readable = runs[runs["strategy"].notna()]
    return [
        option
        for option in OPTIONS
        if readable[option].nunique(dropna=False) > 1
        and not follows_from_strategy(option, readable["strategy"], readable[option])
    ]


def several_sizes(runs: pd.DataFrame) -> bool:
    """Whether the number of workers tells runs apart; `single` always has one."""
    readable = runs[runs["strategy"].notna()]
    return bool(readable[readable["strategy"] != "single"]["workers"].nunique() > 1)


def in_common(runs: pd.DataFrame) -> str:
    """What all readable runs have in common, in words; empty where none is readable."""
    readable = runs[runs["strategy"].notna()]
    if readable.empty:
        return ""
    phrases = []
    for option, words in SHARED.items():
        of = readable[readable["strategy"] != "single"] if option == "workers" else readable
        values = of[option].unique()
        if len(values) == 1 and (words.free or not pd.isna(values[0])):
            phrases.append(words.free if pd.isna(values[0]) else words.text(values[0]))
    return ", ".join(text for text in phrases if text).replace(", on ", " on ", 1)


def scored_on(runs: pd.DataFrame) -> str:
    """Which samples the final accuracy is measured on: the test set, or --test-size of it."""
    sizes = runs[runs["accuracy"].notna()]["test_size"]
    limits = sorted(int(size) for size in sizes.dropna().unique())
    if not limits:
        return "on the whole test set"
    least, most = f"{limits[0]:,}", f"{limits[-1]:,}"
    samples = f"on {least if least == most else f'{least} to {most}'} test samples (--test-size)"
    return f"{samples}, or on the whole test set" if sizes.isna().any() else samples


def labels(
    runs: Sequence[pd.Series[Any]], options: Sequence[str], *, with_workers: bool = True
) -> list[str]:
    """What was run, in words; defaults are left out unless that would make two labels equal."""
    short, full = (
        [label(run, options, with_workers=with_workers, defaults=defaults) for run in runs]
        for defaults in (False, True)
    )
    meant: dict[str, set[str]] = {}
    for text, whole in zip(short, full, strict=True):
        meant.setdefault(text, set()).add(whole)
    return [
        text if len(meant[text]) == 1 else whole for text, whole in zip(short, full, strict=True)
    ]


def _is_usual(run: pd.Series[Any], option: str) -> bool:
    """Whether an option has its default. Quantities are always named: few know their defaults."""
    if option in QUANTITIES:
        return False
    strategy = str(run["strategy"])
    own = own_defaults(strategy) if strategy in STRATEGIES else {}
    return bool(run[option] == own.get(option, DEFAULTS[option]))


def _words(option: str, value: Any) -> str:
    if (option, value) == ("bucket_mb", 0):
        return "tensor by tensor"
    return f"{option.replace('_', ' ')} {option_text(value)}"


def label(
    run: pd.Series[Any], options: Sequence[str], *, with_workers: bool = True, defaults: bool = True
) -> str:
    """These options, with or without defaults; a run that cannot be read has only its name."""
    if pd.isna(run["strategy"]):
        return str(run["run"])
    schedule = "" if pd.isna(run["schedule"]) else f" ({run['schedule']})"
    workers = [f"{run['workers']} worker{'' if run['workers'] == 1 else 's'}"]
    workers = workers if with_workers else []
    passes = [] if pd.isna(run["passes"]) else [f"passes {run['passes']}"]
    others = [
        _words(k, run[k])
        for k in options
        if not pd.isna(run[k])
        and (k, run[k]) != ("local_steps", 1)
        and (defaults or not _is_usual(run, k))
    ]
    return ", ".join([run["strategy"] + schedule, *workers, *passes, *others])
