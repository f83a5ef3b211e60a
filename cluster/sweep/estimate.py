"""How long runs take: predicted before the first one, corrected by runs that have completed.

A prediction is crude, but in proportion: the ratio of measured to predicted seconds is taken from
runs of the same model, of this session or of earlier ones in the same folder.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.observe.units import rounded_time
from cluster.spec import synthetic
from cluster.spec.catalogue import DATASETS
from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.session_plan import COMPLETED, PlannedRun, SessionFolder, SessionPlan
from cluster.spec.documents.summary import Summary
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment

StepTime = Callable[[Experiment, float, int], float]
"""A run, seconds that a step computes, and cores of this machine -> seconds of a step."""

SAMPLE_S = {
    "mnist-cnn": 0.13e-3,
    "mnist-bn": 0.2e-3,
    "vgg11": 10e-3,
    "resnet18": 33e-3,
    "bert-minilm": 0.1,
    "bert-base-cased": 0.75,
    "gpt-tiny": 10e-3,
    "gpt-small": 80e-3,
}
"""Seconds of a core for forward and backward of one sample (2 cores at 2.5 GHz, 2026-11-18)."""
EVALUATED = 0.4
"""Seconds to score a sample, of those to train on it."""
CURVE_SAMPLES = 2000
"""Test samples that score an epoch before the last (workloads/evaluate.py)."""
START_S = {"netns": 4.0, "docker": 8.0, "existing": 20.0}
LINKS_S = 5.0
"""To shape and verify the links of a cluster."""
SETUP_S = {"torch": 2.0, "horovod": 4.0, "spark": 15.0, "slurm": 4.0, "ray": 6.0}
"""Of a run, by launcher: fork, read the data, meet the others, average and save the model."""
PROGRAM_S = 10.0
VIRTUAL_S = 0.03
"""To set up a virtual worker and to save what it found."""
OWN_SAMPLES = 1000
"""Test samples on which each worker scores its own model (workloads/training.py)."""
SESSIONS, SUMMARIES = 20, 40
"""How many earlier ones are read at most, the newest first."""


def predict(experiment: Experiment, step_time: StepTime) -> float:
    """Seconds of a run on nodes that are up, by this host's clock.

    With dilation every node has its part of a core, and all of the run takes so much longer. Of a
    program it is a guess until it has run once.
    """
    if experiment.program is not None:
        return PROGRAM_S
    cores, dilation = os.cpu_count() or 1, experiment.slowdown
    if dilation > 1:
        cores = experiment.nodes
    if experiment.virtual:
        return _predict_virtual(experiment)
    share = max(1.0, experiment.workers / cores)
    shared = max(share, 1.0 / _least_speed(experiment))
    sample_s = SAMPLE_S.get(experiment.model, 0.0)
    if experiment.model.startswith(synthetic.PREFIX):
        model = synthetic.parse(experiment.model)
        compute_s = model.forward_s + model.backward_s
    else:
        compute_s = sample_s * experiment.batch_size * shared
    steps = experiment.steps_per_epoch * experiment.epochs
    scored = _scored(experiment)
    setup_s = SETUP_S.get(experiment.launcher, 2.0) * share
    scoring_s = scored * sample_s * EVALUATED
    training_s = steps * step_time(experiment, compute_s, cores)
    return (setup_s + training_s + scoring_s) * dilation


def _scored(experiment: Experiment) -> int:
    """Test samples, in all epochs."""
    last = experiment.test_size or _test_size(experiment.dataset)
    return last + (experiment.epochs - 1) * min(last, CURVE_SAMPLES)


def _predict_virtual(experiment: Experiment) -> float:
    """One core computes for all workers, and exchanges are copies; each worker scores its own
    model at the end."""
    workers, sample_s = experiment.workers, SAMPLE_S.get(experiment.model, 0.0)
    samples = experiment.steps_per_epoch * experiment.epochs * experiment.batch_size * workers
    scored = _scored(experiment) + workers * OWN_SAMPLES
    return SETUP_S["torch"] + workers * VIRTUAL_S + sample_s * (samples + EVALUATED * scored)


def _least_speed(experiment: Experiment) -> float:
    """Of the node that all wait for, in cores; without a barrier nobody does: of all, the mean."""
    speeds = [min(1.0, experiment.cpus_by_rank.get(r, 1.0)) for r in range(experiment.workers)]
    return sum(speeds) / len(speeds) if experiment.is_unpaced else min(speeds)


def plan_times(
    names: Sequence[str], experiments: Sequence[Experiment], step_time: StepTime, output: Path
) -> list[PlannedRun]:
    """The runs of a session, with the seconds that each is expected to take."""
    ratios = Ratios()
    models = {_kind(experiment.to_json()) for experiment in experiments}
    for run, summary in _earlier(output, models):
        ratios.add(_kind(summary.spec), summary, predict(run, step_time))
    planned = []
    before: object = None
    for name, run in zip(names, experiments, strict=True):
        start_s = _start_s(run) if run.cluster != before else 0.0
        before = run.cluster
        run_s = predict(run, step_time) * ratios.of(_kind(run.to_json()))
        planned.append(PlannedRun(run=name, start_s=start_s, run_s=run_s, spec=run.to_json()))
    return planned


def remaining_s(plan: SessionPlan, closed: Mapping[str, Summary]) -> float:
    """Seconds until the session ends: of all runs without the closed ones, given their summaries.

    A run that has begun counts in full.
    """
    ratios = Ratios()
    for planned in plan.runs:
        if planned.run in closed:
            ratios.add(_kind(planned.spec), closed[planned.run], planned.run_s)
    return sum(
        planned.start_s + planned.run_s * ratios.of(_kind(planned.spec))
        for planned in plan.runs
        if planned.run not in closed
    )


def _kind(spec: Mapping[str, Any]) -> str:
    """Runs of the same model, or of the same program, take alike."""
    return str(spec.get("program") or spec.get("model"))


class Ratios:
    """Measured over predicted seconds of completed runs: of one model, else of all."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}

    def add(self, model: str, summary: Summary, predicted_s: float) -> None:
        seconds = summary.seconds
        total_s = (seconds.wall_s or seconds.total_s) if seconds else None
        if summary.status == COMPLETED and total_s and predicted_s:
            for key in (model, ""):
                measured, predicted = self._sums.get(key, (0.0, 0.0))
                self._sums[key] = measured + total_s, predicted + predicted_s

    def of(self, model: str) -> float:
        measured, predicted = self._sums.get(model) or self._sums.get("") or (1.0, 1.0)
        return measured / predicted


def _test_size(dataset: str) -> int:
    """Unknown of a data set of the user's own."""
    return DATASETS[dataset].test_size if dataset in DATASETS else CURVE_SAMPLES


def about(seconds: float) -> str:
    """about 4 min"""
    return f"about {rounded_time(seconds)}"


def _start_s(run: Experiment) -> float:
    share = max(1.0, run.started_nodes / (os.cpu_count() or 1) / 4)
    return START_S.get(run.engine, 4.0) * share + (LINKS_S if run.all_shaped else 0.0)


def _earlier(output: Path, models: Iterable[str]) -> Iterator[tuple[Experiment, Summary]]:
    """Completed runs of these models in earlier sessions, the newest first."""
    wanted, left = set(models), SUMMARIES
    plans = sorted(output.glob("*/session.json"), reverse=True)[:SESSIONS]
    for session in (SessionFolder(path.parent) for path in plans):
        try:
            plan = session.read_plan()
            alike = [run for run in plan.runs if _kind(run.spec) in wanted][:left]
            plan = dataclasses.replace(plan, runs=alike)
            experiments = plan.experiments()
        except (OSError, DocumentError, SpecError):
            continue
        for name, summary in session.read_completed(plan).items():
            yield experiments[name], summary
        left -= len(alike)
