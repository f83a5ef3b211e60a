"""What is said before the first run: the list of runs, how long they take, limits and models."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence

from cluster import presets
from cluster.engine import Engine
from cluster.observe.units import bytes_text
from cluster.spec.catalogue import MODELS
from cluster.spec.documents.session_plan import SessionPlan, run_names
from cluster.spec.experiment import Experiment
from cluster.sweep.estimate import StepTime, about, plan_times, remaining_s

MOST_LINES = 20
"""Runs that are listed before a sweep; --dry-run lists all."""


def make_plan(
    args: argparse.Namespace,
    command: list[str],
    experiments: Sequence[Experiment],
    step_time: StepTime,
) -> SessionPlan:
    return SessionPlan(
        command=command,
        preset=args.preset,
        title=None if args.preset is None else presets.title(args.preset),
        data_dir=None if args.data_dir is None else str(args.data_dir.absolute()),
        spark_master=args.spark_master,
        runs=plan_times(run_names(experiments), experiments, step_time, args.output),
    )


def print_plan(plan: SessionPlan, as_json: bool) -> None:
    """--dry-run: on standard output."""
    if as_json:
        print(json.dumps(plan.to_json(), indent=1))
    else:
        print("\n".join(listing(plan, len(plan.runs))))


def listing(plan: SessionPlan, most: int = MOST_LINES) -> Iterator[str]:
    """How many runs, how long they take, and each of them."""
    count = len(plan.runs)
    yield f"{count} {'run' if count == 1 else 'runs'}, {about(remaining_s(plan, {}))}:"
    for run in plan.runs[:most]:
        yield f"  {run.run}  {about(run.start_s + run.run_s)}"
    if count > most:
        yield f"  ... and {count - most} more; --dry-run lists all"


def announce(
    plan: SessionPlan, experiments: Sequence[Experiment], engine: Engine, say: Callable[[str], None]
) -> None:
    """How limits are kept, which models are trained, and all runs."""
    if any(experiment.cpus_by_rank for experiment in experiments):
        say(f"CPUs are limited by {engine.about['cpu_limits']}")
    if any(experiment.total_memory for experiment in experiments):
        say(f"memory is limited by {engine.about['memory_limits']}")
    for name, dataset in dict.fromkeys((e.model, e.dataset) for e in experiments):
        if name in MODELS:
            count = MODELS[name].parameters
            say(f"model: {name} on {dataset}, {count:,} parameters, {bytes_text(4 * count)}")
    if len(plan.runs) > 1:
        for line in listing(plan):
            say(line)
