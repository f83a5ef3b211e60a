"""What a summary must hold before tables and fits use its numbers."""

import dataclasses
from collections.abc import Callable
from typing import Any

from analysis.tables.columns import COLUMNS, find
from cluster.spec.documents.codec import DocumentError, Options, hints, reader
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.summary import Summary
from cluster.spec.errors import between
from cluster.spec.exchange.codecs import parse_codec
from cluster.spec.exchange.strategies import facts_of
from cluster.spec.experiment import Experiment
from cluster.spec.experiment_checks import check_value
from cluster.spec.links import parse_cores, parse_link, parse_links
from cluster.spec.sites import parse_sites

NEEDED = ("strategy", "workers", "engine")
FIELDS = {field.name: field for field in dataclasses.fields(Experiment)}
PARSED: dict[str, Callable[[str], object]] = {
    "link": parse_link,
    "bottleneck": parse_links,
    "straggler": parse_cores,
    "sites": parse_sites,
    "compress": parse_codec,
}
WITHIN = {"test_size": (1, 10**9), "momentum": (0, 1)}
"""Of options whose bounds depend on others in an Experiment."""
RANKS = {
    "seconds.by_node": ("rank", "waits_mostly_for"),
    "bytes.nodes": ("rank",),
    "traffic_matrix.pairs": ("sender", "receiver"),
}
"""Lists whose entries name nodes by rank."""


def read_checked(folder: RunFolder) -> Summary:
    """The summary of a run; DocumentError where a value of it cannot be."""
    summary = folder.read_summary()
    check(summary)
    return summary


def check(summary: Summary) -> None:
    """What a completed run has, and what no run has. DocumentError names the file and the key."""
    try:
        check_options(summary.spec)
        if summary.status == "completed":
            _check_completed(summary)
        _check_ranks(summary)
        for key in ("curve", "training.epochs"):
            epochs = [entry.epoch for entry in find(summary, key) or ()]
            if len(set(epochs)) < len(epochs):
                raise DocumentError("has an epoch twice", key)
    except DocumentError as error:
        raise DocumentError(f"summary.json: {error}") from None


def check_options(spec: Options) -> None:
    """Of the options that tables hold; null in a run that is older than the option."""
    for name, key in COLUMNS.items():
        if key == f"spec.{name}" and (name in NEEDED or spec.get(name) is not None):
            _check_option(name, spec.get(name))
    facts = facts_of(str(spec["strategy"]))
    if facts.has_passes and spec.get("passes") is None:
        raise DocumentError("is missing", "spec.passes")
    nodes = int(spec["workers"] or 0) + facts.has_server
    for name in ("bottleneck", "straggler"):
        ranks: Any = PARSED[name](str(spec[name])) if spec.get(name) else {}
        if ranks and max(ranks) >= nodes:
            raise DocumentError(f"has node {max(ranks)} of {nodes}", f"spec.{name}")


def _check_option(name: str, value: Any) -> None:
    try:
        reader(hints(Experiment)[name])(value)
        check_value(FIELDS[name], value)
        if name in WITHIN:
            between(name, value, *WITHIN[name])
        if name in PARSED:
            PARSED[name](value)
    except ValueError as error:
        raise DocumentError(str(error).removeprefix(f"{name} "), f"spec.{name}") from None


def _check_completed(summary: Summary) -> None:
    is_program = summary.spec.get("program") is not None
    for name in () if is_program else ("model_bytes", "steps", "rounds"):
        value = getattr(summary, name)
        if value is None or (name == "steps" and not value):
            raise DocumentError(f"is {value} in a completed run", name)
    if (seconds := summary.seconds) is not None:
        steps = [seconds.step_median_s, *(node.step_median_s for node in seconds.by_node)]
        if 0 in steps:
            raise DocumentError("has a step_median_s of 0", "seconds")


def _check_ranks(summary: Summary) -> None:
    workers = int(summary.spec["workers"] or 0)
    nodes = workers + facts_of(str(summary.spec["strategy"])).has_server
    for key, names in RANKS.items():
        for place, entry in enumerate(find(summary, key) or ()):
            for name in names:
                if (getattr(entry, name) or 0) >= nodes:
                    problem = f"must be below {nodes}, not {getattr(entry, name)}"
                    raise DocumentError(problem, f"{key}[{place}].{name}")
