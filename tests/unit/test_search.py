"""The search of hyper-parameters: one budget for all, without test data and result seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from bench.search import preset
from bench.search.found import Trial, add_trial, best_of, read_trials
from bench.search.tasks import Composition, Task, read_tasks
from cluster.flags import parse
from cluster.plan import make_experiments
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from workloads.data.batches import kept
from workloads.data.samples import Rows, Samples
from workloads.own.learning import held_out

TASKS = read_tasks()
COMPOSITIONS = [(task, each) for task in TASKS.values() for each in task.compositions]


@pytest.mark.parametrize(("task", "composition"), COMPOSITIONS, ids=lambda each: each.name)
def test_every_composition_of_a_task_has_its_number_of_trials(
    task: Task, composition: Composition
) -> None:
    points = composition.trials(task.name, task.trials)
    assert len(points) == task.trials
    assert len({str(point) for point in points}) == task.trials
    assert points == composition.trials(task.name, task.trials)
    for point in points:
        for option, value in point.items():
            assert value in composition.lists[option]


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_what_was_found_is_of_the_trials_that_are_drawn(task: Task) -> None:
    drawn = {each.name: each.trials(task.name, task.trials) for each in task.compositions}
    for trial in read_trials(task.found):
        assert trial.options in drawn[trial.composition]


def test_the_preset_is_what_was_found() -> None:
    """python3 -m bench.search --preset writes it again; its seeds are not those of the search."""
    assert preset.PRESET.read_text() == preset.text(TASKS)
    seeds = {run.seed for run in make_experiments(parse(["--preset", "frontier"]))}
    assert seeds.isdisjoint(task.seed for task in TASKS.values())


def test_the_best_has_the_least_loss(tmp_path: Path) -> None:
    trials = [
        Trial("a", {"lr": 0.1}, 0.9, 0.5, 10.0),
        Trial("a", {"lr": 0.2}, 0.8, 0.4, 10.0),
        Trial("a", {"lr": 0.4}, None, None, 10.0),
    ]
    assert best_of(trials).options == {"lr": 0.2}
    file = tmp_path / "found.csv"
    for trial in trials:
        add_trial(file, trial)
    assert read_trials(file) == trials


def test_held_out_samples_are_none_that_a_run_trains_on() -> None:
    inputs = torch.arange(100).view(100, 1)
    test = Rows(torch.full((30, 1), -1))
    data = Samples(Rows(inputs), torch.arange(100), test, torch.full((30,), -1), lambda x: x)
    for train_size in (10, 69, 70, 95):
        found = held_out(data, train_size)
        trained = set(kept(100, train_size).tolist())
        scored = set(found.test_labels.tolist())
        assert len(scored) == min(30, 100 - train_size)
        assert scored.isdisjoint(trained)
        everything = torch.arange(len(scored))
        assert torch.equal(found.test_inputs[everything][:, 0], found.test_labels)


@pytest.mark.parametrize("options", [{"train_size": 60_000}, {"dataset": "none"}])
def test_without_samples_that_are_left_out_nothing_can_be_scored(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        Experiment(score_on="held-out", **options)
