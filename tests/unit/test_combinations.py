"""Which options go with which strategies (docs/strategies.md), and nothing refused beyond it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import AVERAGES, BUFFERS, REDUCTIONS, STRATEGIES
from cluster.spec.experiment import Experiment
from cluster.spec.options import OPTIMIZERS

OPTIONS: dict[str, list[Any]] = {
    "average": [*AVERAGES],
    "reduce": [*REDUCTIONS],
    "local_steps": [1, 3],
    "bucket_mb": [None, 0, 2.5],
    "overlap": [False, True],
    "compress": ["none", "fp16"],
    "buffers": [*BUFFERS],
}
ALL = [dict(zip(OPTIONS, values, strict=True)) for values in itertools.product(*OPTIONS.values())]


def experiment(strategy: str, **options: Any) -> Experiment:
    if STRATEGIES[strategy].has_passes:
        options = {"passes": 1, "schedule": "ring", **options}
    if STRATEGIES[strategy].needs_sites:
        options = {"sites": "a:2,b:2", **options}
    workers = 1 if strategy == "single" else 4
    return Experiment(**{"strategy": strategy, "workers": workers, "model": "mnist-bn", **options})


def makes_sense(strategy: str, options: dict[str, Any]) -> bool:
    """As the README says."""
    if strategy == "single":
        return options == {
            **dict.fromkeys(OPTIONS, None),
            "average": "gradients",
            "reduce": "mean",
            "local_steps": 1,
            "overlap": False,
            "compress": "none",
            "buffers": "local",
        }
    parameters = options["average"] == "parameters"
    if strategy in ("pairwise", "sgp", "local-sgd") and not parameters:
        return False
    if parameters and (options["reduce"] == "sum" or options["overlap"]):
        return False
    if STRATEGIES[strategy].unpaced:
        return (
            parameters == (strategy != "async-server")
            and (options["reduce"], options["overlap"]) == ("mean", False)
            and (options["bucket_mb"], options["compress"]) == (None, "none")
            and options["buffers"] in ("local", STRATEGIES[strategy].buffers)
        )
    return strategy != "ddp" or not (
        parameters
        or options["reduce"] == "sum"
        or options["overlap"]
        or options["buffers"] == "average"
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_combination_is_refused_exactly_where_it_makes_no_sense(strategy: str) -> None:
    for options in ALL:
        if makes_sense(strategy, options):
            chosen = experiment(strategy, **options)
            assert {name: getattr(chosen, name) for name in options} == options
        else:
            with pytest.raises(SpecError) as refused:
                experiment(strategy, **options)
            assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("strategy", "options", "reason"),
    [
        ("ddp", {"overlap": True}, "overlap does not apply to strategy ddp, which always overlaps"),
        ("ddp", {"reduce": "sum"}, "which always divides by the number of workers"),
        ("pairwise", {"average": "gradients"}, "would diverge"),
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
        ("single", {"lr_rule": "linear"}, "lr_rule does not apply to strategy single"),
        ("single", {"link": "20mbit"}, "link does not apply to strategy single, which exchanges"),
        ("allreduce", {"model": "mnist-cnn", "buffers": "average"}, "mnist-cnn, which has no buf"),
        ("allreduce", {"optimizer": "adamw", "momentum": 0.9}, "adamw, which has its own moments"),
        ("allreduce", {"model": "synthetic:4M", "lr": 0.1}, "lr does not apply .* learns nothing"),
        ("allreduce", {"model": "synthetic:4M", "test_size": 1}, "test_size does not apply to"),
        ("allreduce", {"shuffle": "fixed", "epochs": 1}, "from the second epoch on"),
        ("allreduce", {"warmup_epochs": 0.06}, "is no warm-up: an epoch has 23 steps"),
    ],
)
def test_a_refusal_says_why(strategy: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        experiment(strategy, **options)


def test_a_strategy_has_defaults_of_its_own() -> None:
    chosen = {name: experiment(name) for name in STRATEGIES}
    average = {name for name, run in chosen.items() if run.average == "parameters"}
    assert average == {"pairwise", "sgp", "local-sgd", "async-pairwise", "quorum"}
    assert chosen["pairwise"].buffers == "average"
    assert chosen["single"].buffers == "local"
    assert chosen["allreduce"].buffers == "broadcast"
    rules = {name: run.lr_rule for name, run in chosen.items()}
    assert rules == {**dict.fromkeys(STRATEGIES, "sqrt"), "single": "none"}


@pytest.mark.parametrize("options", [{"reduce": "sum"}, {"model": "synthetic:4M"}], ids=str)
def test_the_rate_is_left_alone_where_gradients_are_added_up_or_nothing_is_learned(
    options: dict[str, Any],
) -> None:
    assert experiment("allreduce", **options).lr_rule == "none"
    assert experiment("allreduce", **{"lr_rule": "none", **options}).lr_rule == "none"


def test_a_rate_that_a_rule_raises_rises_for_an_epoch() -> None:
    assert experiment("allreduce").warmup_epochs == 1
    assert experiment("allreduce", lr_rule="linear").warmup_epochs == 1
    assert experiment("allreduce", lr_rule="none").warmup_epochs == 0
    assert experiment("single").warmup_epochs == 0
    assert experiment("allreduce", warmup_epochs=0).warmup_epochs == 0
    assert experiment("allreduce", train_size=4 * 64).warmup_epochs == 0  # of one step


def test_a_rule_that_was_given_always_wins() -> None:
    for name in STRATEGIES:
        for rule in ("none", "linear", "sqrt"):
            if name != "single":
                assert experiment(name, lr_rule=rule).lr_rule == rule
    assert experiment("allreduce", reduce="sum", lr_rule="linear").lr_rule == "linear"


def test_adamw_has_no_momentum_and_the_others_a_half() -> None:
    momentum = {name: experiment("allreduce", optimizer=name).momentum for name in OPTIMIZERS}
    assert momentum == {"sgd": 0.5, "lars": 0.5, "adamw": None}
