"""What a run is called in tables and figures: its strategy, and what tells it from the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from analysis.tables.columns import OPTIONS, RENAMED
from cluster.observe.units import link_text, list_names, option_text
from cluster.spec.exchange.algorithms import ALGORITHMS
from cluster.spec.exchange.strategies import STRATEGIES, follows_from_strategy, is_own, own_defaults
from cluster.spec.experiment import Experiment
from cluster.spec.links import parse_cores, parse_links
from cluster.spec.options import HELD_OUT
from cluster.spec.program import arguments, tells_apart


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
    "virtual": Words(lambda yes: "virtual workers (bytes and times predicted)" if yes else ""),
    "link": Words(lambda link: f"{link_text(link)} links", "unlimited links"),
    "epochs": Words(_count("epoch")),
    "train_size": Words("{:,} training samples".format),
    "batch_size": Words("batch size {} per worker".format),
    "dilation": Words(lambda factor: "" if factor == 1 else f"time dilation {factor:g}"),
    "engine": Words(lambda name: ENGINES.get(name, f"engine {name}")),
}
"""Options that the overview names where all runs share them."""


DEFAULTS = {
    RENAMED.get(field.name, field.name): field.default for field in dataclasses.fields(Experiment)
}
QUANTITIES = (
    *("model", "epochs", "train_size", "batch_size", "lr", "momentum", "seed"),
    "local_steps",
)


def slow_nodes(bottleneck: str | None, straggler: str | None) -> list[str]:
    """Which nodes are slow and how: node 3 at 20 Mbit/s, node 1 with 0.05 cores."""
    try:
        links = parse_links(bottleneck) if bottleneck else {}
        cores = parse_cores(straggler) if straggler else {}
    except ValueError:  # of a run folder that somebody else wrote
        return [text for text in (bottleneck, straggler) if text]
    slow = _together({rank: f"at {link_text(str(link))}" for rank, link in links.items()})
    return slow + _together({rank: f"with {share:g} cores" for rank, share in cores.items()})


def _together(how: Mapping[int, str]) -> list[str]:
    """Nodes that are slow in the same way are listed together."""
    found = []
    for way in dict.fromkeys(how.values()):
        ranks = [str(rank) for rank in how if how[rank] == way]
        found.append(f"node{'s' * (len(ranks) > 1)} {list_names(ranks)} {way}")
    return found


OPTION_WORDS: dict[str, Callable[[Any], str]] = {
    "epochs": _count("epoch"),
    "train_size": _count("sample"),
    "local_steps": _count("local step"),
    "link": lambda link: f"{link_text(link)} links",
    "bottleneck": lambda text: ", ".join(slow_nodes(text, None)),
    "straggler": lambda text: ", ".join(slow_nodes(None, text)),
    "cpus": "{:g} cores per node".format,
    "bucket_mb": lambda size: f"buckets of {size:g} MiB" if size else "tensor by tensor",
    "average": "{} averaged".format,
    "reduce": lambda how: {"mean": "mean", "sum": "sum instead of mean"}.get(how, f"reduce {how}"),
    "partition": lambda how: f"shards by {how}" if how == "label" else f"{how} shards",
    "lr_rule": lambda rule: "lr not scaled" if rule == "none" else f"{rule} lr rule",
    "warmup_epochs": lambda count: f"warm-up of {count:g} epochs" if count else "no warm-up",
    "overlap": lambda yes: "overlap" if yes else "no overlap",
    "virtual": lambda yes: "virtual (bytes predicted)" if yes else "real nodes",
    "augment": lambda yes: "augmented" if yes else "not augmented",
    "staleness": "at most {:g} rounds ahead".format,
    "quorum": "{:g} needed".format,
    "grace": "grace {:g}".format,
    "optimizer": str,
    "model": str,
}
"""An option in a label; the others are their name and value: lr 0.02, buffers local."""


def differing(runs: pd.DataFrame) -> list[str]:
    """The options that tell these runs apart."""
    readable = runs[runs["strategy"].notna()]
    shown = readable[[*OPTIONS, "strategy"]].astype(object)
    specs: list[dict[str, Any]] = shown.where(shown.notna(), None).to_dict("records")  # type: ignore[assignment]
    return [
        option
        for option in OPTIONS
        if tells_apart(option, specs)
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
    is_scored = runs["accuracy"].notna()
    if (runs[is_scored]["score_on"] == HELD_OUT).any():
        return "on training samples that were left out (--score-on held-out)"
    sizes = runs[is_scored]["test_size"]
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
    known = strategy in STRATEGIES or is_own(strategy)
    own = own_defaults(strategy) if known else {}
    return bool(run[option] == own.get(option, DEFAULTS[option]))


def _words(option: str, value: Any) -> str:
    if option == "program":
        return arguments(str(value))
    if option in OPTION_WORDS:
        return OPTION_WORDS[option](value)
    return f"{option.replace('_', ' ')} {option_text(value)}"


REPLACED = ("local_steps", "compress", "outer", "stream", "average", "error_feedback")
"""Options of an algorithm that flags may have replaced: named even where all runs have the same."""


def _composition(run: pd.Series[Any]) -> dict[str, object]:
    """The options that an algorithm's name stands for; none where the run is no such."""
    name = run["algorithm"]
    if pd.isna(name) or name not in ALGORITHMS:
        return {}
    return {"algorithm": name, **ALGORITHMS[name].options}


def label(
    run: pd.Series[Any], options: Sequence[str], *, with_workers: bool = True, defaults: bool = True
) -> str:
    """These options, with or without defaults; a run that cannot be read has only its name."""
    if pd.isna(run["strategy"]):
        return str(run["run"])
    schedule = "" if pd.isna(run["schedule"]) else f" ({run['schedule']})"
    workers = [f"{run['workers']} worker{'' if run['workers'] == 1 else 's'}"]
    workers = workers if with_workers else []
    hops = run["passes"]
    passes = [] if pd.isna(hops) else [f"{hops} pass{'' if hops == 1 else 'es'}"]
    named = _composition(run)
    others = [
        _words(k, run[k])
        for k in options
        if not pd.isna(run[k])
        and named.get(k, ...) != run[k]
        and (k, run[k]) != ("local_steps", 1)
        and (defaults or not _is_usual(run, k))
    ]
    own = [_words(k, run[k]) for k, v in named.items() if k in REPLACED and run[k] != v]
    own = [text for text in own if text not in others]
    if named and hops == named.get("passes") and schedule == f" ({named.get('schedule')})":
        passes, schedule = [], ""
    name = str(run["algorithm"]) if named else str(run["strategy"])
    return ", ".join([name + schedule, *workers, *passes, *others, *own])
