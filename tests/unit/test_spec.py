"""Experiment: what is accepted survives JSON unchanged, what is refused is named."""

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cluster.observe import results_table
from cluster.spec.documents.field_docs import field_docs
from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.experiment import EXISTING, Experiment
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.options import LR_RULES
from cluster.spec.schedules.consensus import SCHEDULE_CHOICES
from cluster.spec.virtual import MOST_REAL_WORKERS

PAIRS: dict[str, Any] = {"strategy": "pairwise", "passes": 1, "schedule": "ring"}


@some.composite
def experiments(draw: some.DrawFn) -> Experiment:
    """Any experiment that is allowed, far from the defaults."""
    strategy = draw(some.sampled_from(sorted(STRATEGIES)))
    facts = STRATEGIES[strategy]
    passes, schedule = None, None
    if facts.has_passes:
        passes = draw(some.integers(1, MOST_REAL_WORKERS))
        allowed = [s for s in SCHEDULE_CHOICES if s != "exponential" or passes == 1]
        schedule = draw(some.sampled_from(allowed))
    workers = draw(some.integers(1, MOST_REAL_WORKERS)) if facts.exchanges else 1
    batch_size = draw(some.integers(1, 1000))
    return Experiment(
        strategy=strategy,
        workers=workers,
        passes=passes,
        schedule=schedule,
        sites=f"a:{workers - 1},b:1" if facts.needs_sites and workers > 1 else None,
        local_steps=1,
        epochs=draw(some.integers(1, 100_000)),
        train_size=draw(some.integers(workers * batch_size, 10**9)),
        batch_size=batch_size,
        lr=draw(some.floats(1e-9, 1000)),
        momentum=draw(some.floats(0, 1, exclude_max=True)),
        lr_rule="none" if strategy == "single" else draw(some.sampled_from(sorted(LR_RULES))),
        seed=draw(some.integers(0, 2**31 - 1)),
        engine=draw(some.sampled_from(["docker", "netns", EXISTING])),
        cpus=draw(some.none() | some.floats(0.01, 1024)),
        interval=draw(some.floats(0.1, 3600)),
    )


@given(experiments())
def test_an_experiment_survives_json_and_its_text(experiment: Experiment) -> None:
    document = experiment.to_json()
    assert Experiment.from_json(document) == experiment
    assert Experiment.from_json(json.loads(json.dumps(document, allow_nan=False))) == experiment


@given(experiments())
def test_json_holds_every_field_defaults_too(experiment: Experiment) -> None:
    names = {field.name for field in dataclasses.fields(Experiment)}
    assert set(experiment.to_json()) == {"schema", *names}


@given(experiments())
def test_reading_json_does_not_change_the_document(experiment: Experiment) -> None:
    document = experiment.to_json()
    before = dict(document)
    Experiment.from_json(document)
    assert document == before


@given(experiments())
def test_every_worker_has_whole_batches_in_every_epoch(experiment: Experiment) -> None:
    used = experiment.steps_per_epoch * experiment.batch_size * experiment.workers
    assert 0 < used <= experiment.train_size
    assert experiment.train_size - used < experiment.batch_size * experiment.workers
    exchanged = experiment.steps_per_epoch * experiment.epochs
    assert experiment.rounds == (0 if experiment.strategy == "single" else exchanged)


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    # values, the field that is named, what else the line says
    ({"workers": 0}, "workers", "between 1 and 4,096, not 0"),
    ({"workers": -1}, "workers", "between 1 and 4,096, not -1"),
    ({"workers": 257}, "workers", "use --virtual 257"),
    ({"workers": 10**400}, "workers", "at most 9.22337e+18, not 1"),
    ({"epochs": 0}, "epochs", "not 0"),
    ({"train_size": 0}, "train_size", "not 0"),
    ({"batch_size": 0}, "batch_size", "not 0"),
    ({"seed": -1}, "seed", "not -1"),
    ({"seed": 2**31}, "seed", "not 2,147,483,648"),
    ({"lr": 0}, "lr", "not 0"),
    ({"lr": -0.1}, "lr", "not -0.1"),
    ({"lr": float("nan")}, "lr", "not nan"),
    ({"lr": float("inf")}, "lr", "not inf"),
    ({"momentum": 1}, "momentum", "below 1, not 1"),
    ({"momentum": -0.1}, "momentum", "not -0.1"),
    ({"momentum": float("nan")}, "momentum", "not nan"),
    ({"cpus": 0}, "cpus", "not 0"),
    ({"interval": 0}, "interval", "not 0"),
    ({**PAIRS, "passes": 0}, "passes", "between 1 and 4,096, not 0"),
    ({**PAIRS, "passes": -1}, "passes", "not -1"),
    ({**PAIRS, "passes": 2, "schedule": "exponential"}, "passes", "must be 1, not 2"),
    ({"passes": 1}, "passes", "applies to: pairwise"),
    ({"schedule": "ring"}, "schedule", "applies to: pairwise"),
    ({"strategy": "single", "workers": 2}, "workers", "single has one worker, not 2"),
    ({"batch_size": 1501}, "batch_size", "4 workers is 1500 samples"),
    ({"train_size": 255}, "train_size", "4 workers is 63 samples"),
]


@pytest.mark.parametrize(("values", "field", "says"), REFUSED)
def test_a_refused_value_is_one_line_that_names_its_field(
    values: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(SpecError) as refusal:
        Experiment(**values)
    line = str(refusal.value)
    assert re.search(rf"\b{field}\b", line)
    assert says in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("values", "largest"),
    [
        ({"train_size": 10**6}, {"workers": MOST_REAL_WORKERS}),
        ({"workers": 4, "train_size": 6000}, {"batch_size": 1500}),
        ({}, {"seed": 2**31 - 1}),
        ({}, {"momentum": 0.0}),
        (PAIRS, {"passes": MOST_REAL_WORKERS}),
        ({"strategy": "single"}, {"workers": 1}),
        ({**PAIRS, "schedule": "exponential"}, {"passes": 1}),
        ({**PAIRS, "schedule": "exponential", "workers": 4}, {"passes": 3}),
    ],
)
def test_the_last_value_before_a_refusal_is_accepted(
    values: dict[str, Any], largest: dict[str, Any]
) -> None:
    ((name, value),) = largest.items()
    assert getattr(Experiment(**{**values, **largest}), name) == value


@pytest.mark.parametrize(
    ("field", "choices"),
    [
        ("strategy", tuple(STRATEGIES)),
        ("schedule", SCHEDULE_CHOICES),
        ("launcher", tuple(LAUNCHERS)),
    ],
)
def test_an_unknown_name_says_what_exists(field: str, choices: tuple[str, ...]) -> None:
    with pytest.raises(SpecError) as refusal:
        Experiment(**{**PAIRS, field: "nonsense"})
    line = str(refusal.value)
    assert f"unknown {field} 'nonsense'" in line
    assert all(choice in line for choice in choices)


def test_passes_belong_to_the_strategies_that_say_so() -> None:
    with_passes = [name for name, facts in STRATEGIES.items() if facts.has_passes]
    assert with_passes
    for name in set(STRATEGIES) - set(with_passes):
        with pytest.raises(SpecError, match=f"does not apply to strategy {name}"):
            Experiment(strategy=name, workers=1, passes=1)


def test_a_spec_with_an_unknown_field_is_refused_by_its_name() -> None:
    document = {**Experiment().to_json(), "wrokers": 2}
    with pytest.raises(SpecError, match="unknown field in the spec: wrokers"):
        Experiment.from_json(document)


@pytest.mark.parametrize("schema", [0, 3, "1", None, True, 2.0])
def test_a_spec_of_another_schema_is_refused(schema: object) -> None:
    with pytest.raises(SpecError, match="schema of the spec must be 1"):
        Experiment.from_json({**Experiment().to_json(), "schema": schema})


def test_a_spec_without_a_schema_is_refused() -> None:
    document = Experiment().to_json()
    del document["schema"]
    with pytest.raises(SpecError, match="schema of the spec must be"):
        Experiment.from_json(document)


def test_a_spec_is_checked_like_flags_are() -> None:
    with pytest.raises(SpecError, match="workers must be between"):
        Experiment.from_json({**Experiment().to_json(), "workers": 0})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workers", "4"),
        ("workers", 2.5),
        ("workers", None),
        ("workers", [4]),
        ("workers", True),
        ("epochs", 1.5),
        ("batch_size", 64.5),
        ("lr", "0.1"),
        ("momentum", "0.5"),
        ("strategy", 1),
        ("strategy", ["allreduce"]),
    ],
)
def test_a_value_of_the_wrong_type_in_a_spec_is_refused_by_its_field(
    field: str, value: object
) -> None:
    """compose/experiment/spec.json is meant to be edited by hand."""
    with pytest.raises(SpecError, match=rf"\b{field}\b"):
        Experiment.from_json({**Experiment().to_json(), field: value})


def test_an_experiment_is_frozen_and_can_be_a_key() -> None:
    experiment = Experiment()
    with pytest.raises(dataclasses.FrozenInstanceError):
        experiment.workers = 2  # type: ignore[misc]
    assert {experiment: "found"}[Experiment()] == "found"


def test_a_change_is_checked_too() -> None:
    with pytest.raises(SpecError, match="workers"):
        dataclasses.replace(Experiment(), workers=0)


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ({"workers": 8}, "allreduce-n8"),
        ({"strategy": "single", "workers": 1}, "single-n1"),
        ({**PAIRS, "workers": 6, "passes": 2, "schedule": "grid"}, "pairwise-n6-p2-grid"),
    ],
)
def test_a_label_names_strategy_workers_and_passes(values: dict[str, Any], label: str) -> None:
    assert Experiment(**values).label == label


def test_every_option_has_a_group_a_docstring_and_a_unit() -> None:
    options = dataclasses.fields(Experiment)
    assert list(field_docs(Experiment)) == [field.name for field in options]
    for field in options:
        assert field.metadata["group"] in (
            "strategy",
            "cluster",
            "training",
            "faults",
            "program",
            "",
        )
        assert field.metadata["unit"]


def test_defaults_that_depend_on_the_strategy_are_filled_in() -> None:
    pairs = Experiment(strategy="pairwise")
    assert (pairs.passes, pairs.schedule, pairs.average) == (1, "ring", "parameters")
    assert Experiment(strategy="local-sgd").local_steps == 8
    assert (Experiment().passes, Experiment().schedule, Experiment().local_steps) == (None, None, 1)


def test_settling_changes_nothing_but_what_the_host_chooses() -> None:
    asked = Experiment(strategy="pairwise", schedule="auto", workers=6, link="0.02gbit")
    settled = asked.settled("docker", "grid", 3.5)
    assert settled == dataclasses.replace(asked, engine="docker", schedule="grid", dilation=3.5)
    assert (asked.schedule, asked.dilation) == ("auto", "auto")


def test_the_number_of_gpus_decides_device_and_back_end() -> None:
    assert (Experiment().device, Experiment().backend) == ("cpu", "gloo")
    on_gpus = Experiment(gpu=1)
    assert (on_gpus.device, on_gpus.backend) == ("cuda", "nccl")
    assert on_gpus.cluster != Experiment().cluster
    assert on_gpus.label == "allreduce-n4-gpu"


def test_a_spec_from_before_learning_rate_rules_keeps_its_rate() -> None:
    document = Experiment().to_json() | {"schema": 1}
    del document["lr_rule"], document["warmup_epochs"]
    assert Experiment.from_json(document) == Experiment(lr_rule="none") != Experiment()


def test_a_spec_in_which_adamw_has_a_momentum_can_still_be_read() -> None:
    document = {**Experiment(optimizer="adamw").to_json(), "schema": 1, "momentum": 0.5}
    assert Experiment.from_json(document) == Experiment(optimizer="adamw")


def test_what_was_left_to_a_strategy_is_written_down() -> None:
    document = Experiment().to_json()
    assert (document["lr_rule"], document["warmup_epochs"]) == ("sqrt", 1.0)
    assert Experiment(lr_rule="auto") == Experiment(lr_rule="sqrt") == Experiment()


def test_a_spec_from_before_gpus_is_one_without() -> None:
    document = Experiment().to_json()
    del document["gpu"]
    assert Experiment.from_json(document) == Experiment()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpu": 2}, "which is for strategy single"),
        ({"gpu": -1}, "gpu must be between 0 and 16"),
        ({"gpu": 1, "launcher": "spark"}, "does not apply to launcher spark"),
        ({"gpu": 1, "link": "20mbit"}, "link does not go with gpu"),
        ({"gpu": 1, "bottleneck": "1:20mbit"}, "bottleneck does not go with gpu"),
    ],
)
def test_what_makes_no_sense_on_gpus_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        Experiment(**options)


def test_runs_of_an_older_version_stand_in_one_table_with_new_ones() -> None:
    """As when a session is resumed: their specs do not name every option."""
    new = Experiment(workers=2).to_json()
    old = {name: value for name, value in new.items() if name not in ("algorithm", "network")}
    assert results_table.differing([new, old | {"lr": 0.7}]) == ["lr"]
    assert results_table.differing([old, new]) == []
