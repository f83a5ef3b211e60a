"""Which knobs go with which strategies: the table of the README, and nothing refused beyond it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from cluster.spec import Experiment, SpecError
from cluster.strategies import AVERAGES, BUFFERS, REDUCTIONS, STRATEGIES

KNOBS: dict[str, list[Any]] = {
    "average": [*AVERAGES],
    "reduce": [*REDUCTIONS],
    "local_steps": [1, 3],
    "bucket_mb": [None, 0, 2.5],
    "overlap": [False, True],
    "compress": ["none", "fp16"],
    "buffers": [*BUFFERS],
}
ALL = [dict(zip(KNOBS, values, strict=True)) for values in itertools.product(*KNOBS.values())]


def experiment(strategy: str, **knobs: Any) -> Experiment:
    if STRATEGIES[strategy].has_passes:
        knobs = {"passes": 1, "schedule": "ring", **knobs}
    return Experiment(strategy=strategy, workers=1 if strategy == "single" else 4, **knobs)


def makes_sense(strategy: str, knobs: dict[str, Any]) -> bool:
    """As the README says."""
    if strategy == "single":
        return knobs == {
            **dict.fromkeys(KNOBS, None),
            "average": "gradients",
            "reduce": "mean",
            "local_steps": 1,
            "overlap": False,
            "compress": "none",
            "buffers": "local",
        }
    parameters = knobs["average"] == "parameters"
    if strategy in ("pairwise", "local-sgd") and not parameters:
        return False
    if parameters and (knobs["reduce"] == "sum" or knobs["overlap"]):
        return False
    return strategy != "ddp" or not (
        parameters or knobs["reduce"] == "sum" or knobs["overlap"] or knobs["buffers"] == "average"
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_combination_is_refused_exactly_where_it_makes_no_sense(strategy: str) -> None:
    for knobs in ALL:
        if makes_sense(strategy, knobs):
            chosen = experiment(strategy, **knobs)
            assert {name: getattr(chosen, name) for name in knobs} == knobs
        else:
            with pytest.raises(SpecError) as refused:
                experiment(strategy, **knobs)
            assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("strategy", "knobs", "reason"),
    [
        ("ddp", {"overlap": True}, "overlap does not apply to strategy ddp, which always overlaps"),
        ("ddp", {"reduce": "sum"}, "which always divides by the number of workers"),
        ("pairwise", {"average": "gradients"}, "would drift apart"),
        ("local-sgd", {"average": "gradients"}, "use --strategy allreduce with --local-steps"),
        ("allreduce", {"average": "parameters", "reduce": "sum"}, "added up are no model"),
        ("ring", {"average": "parameters", "overlap": True}, "only known after the update"),
        ("single", {"bucket_mb": 1.0}, "bucket_mb does not apply to strategy single"),
        ("single", {"buffers": "average"}, "which exchanges nothing"),
        ("allreduce", {"local_steps": 0}, "local_steps must be between 1 and"),
        ("allreduce", {"bucket_mb": -1.0}, "bucket_mb must be between 0 and"),
        ("allreduce", {"average": "weights"}, "unknown average 'weights'; there is: gradients"),
        ("allreduce", {"buffers": "global"}, "unknown buffers 'global'; there is: broadcast"),
        ("allreduce", {"reduce": "max"}, "unknown reduce 'max'; there is: mean, sum"),
    ],
)
def test_a_refusal_says_why(strategy: str, knobs: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        experiment(strategy, **knobs)


def test_a_strategy_has_defaults_of_its_own() -> None:
    chosen = {name: experiment(name) for name in STRATEGIES}
    average = {name for name, one in chosen.items() if one.average == "parameters"}
    assert average == {"pairwise", "local-sgd"}
    assert chosen["pairwise"].buffers == "average"
    assert chosen["single"].buffers == "local"
    assert chosen["allreduce"].buffers == "broadcast"
