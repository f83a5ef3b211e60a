"""What is said before the first run: the list of runs, how long they take, limits and models."""

import argparse
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from cluster import presets
from cluster.engine import Engine
from cluster.observe.units import bytes_text
from cluster.spec.catalogue import MODELS
from cluster.spec.documents.session_plan import SessionPlan, run_names
from cluster.spec.documents.summary import Summary
from cluster.spec.experiment import Experiment
from cluster.spec.hosts import HostOptions
from cluster.sweep.estimate import StepTime, about, plan_times, remaining_s

MOST_LINES = 20
"""Runs that are listed before a sweep; --dry-run lists all."""
MOST_FAULTS = 12
"""Of a storm's faults that are listed."""


def make_plan(
    args: argparse.Namespace,
    command: list[str],
    experiments: Sequence[Experiment],
    step_time: StepTime,
    hosts: HostOptions | None,
) -> SessionPlan:
    return SessionPlan(
        command=command,
        preset=args.preset,
        title=None if args.preset is None else presets.title(args.preset),
        memory_may_end=args.preset is not None and presets.memory_may_end(args.preset),
        data_dir=None if args.data_dir is None else str(args.data_dir.absolute()),
        hosts=hosts,
        runs=plan_times(run_names(experiments), experiments, step_time, args.output),
    )


def print_plan(plan: SessionPlan, as_json: bool) -> None:
    """--dry-run: on standard output."""
    if as_json:
        print(json.dumps(plan.to_json(), indent=1))
    else:
        print("\n".join(listing(plan, {}, len(plan.runs))))


def listing(plan: SessionPlan, closed: Mapping[str, Summary], most: int) -> Iterator[str]:
    """How many runs are to come, how long they take, and each of them."""
    runs = [run for run in plan.runs if run.run not in closed]
    noun = "run" if len(runs) == 1 else "runs"
    yield f"{len(runs)} {noun}, {about(remaining_s(plan, closed))}:"
    for run in runs[:most]:
        yield f"  {run.run}  {about(run.start_s + run.run_s)}"
    if len(runs) > most:
        yield f"  ... and {len(runs) - most} more"
    experiments = plan.experiments()
    yield from dict.fromkeys(
        line for run in runs for line in fault_schedule(experiments[run.run], run.run_s)
    )


def fault_schedule(experiment: Experiment, run_s: float) -> Iterator[str]:
    """What happens to nodes in a run that takes about so long on this host's clock."""
    if experiment.fault is not None:
        yield f"faults: {experiment.fault.replace(',', ', ')}"
    elif experiment.storm is not None:
        begun = itertools.islice(experiment.faults(), MOST_FAULTS + 1)
        due = [fault for fault in begun if fault.moment.at <= run_s / experiment.slowdown]
        first = ", ".join(map(str, due[:MOST_FAULTS])) or "none in the time that the run takes"
        more = ", ..." if len(due) > MOST_FAULTS else ""
        yield f"storm {experiment.storm} on {experiment.workers} workers: {first}{more}"


def announce(
    plan: SessionPlan, closed: Mapping[str, Summary], engine: Engine, say: Callable[[str], None]
) -> None:
    """How limits are kept, which models are trained, and all runs to come."""
    experiments = [e for run, e in plan.experiments().items() if run not in closed]
    if any(experiment.host_limits for experiment in experiments):
        say(f"CPUs are limited by {engine.about['cpu_limits']}")
    if any(experiment.total_memory for experiment in experiments):
        say(f"memory is limited by {engine.about['memory_limits']}")
    for name, dataset in dict.fromkeys((e.model, e.dataset) for e in experiments):
        if name in MODELS:
            count = MODELS[name].parameters
            say(f"model: {name} on {dataset}, {count:,} parameters, {bytes_text(4 * count)}")
    for line in listing(plan, closed, MOST_LINES):
        say(line)
