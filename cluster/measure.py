"""The command line: flags -> runs -> table. Started by ./measure.sh; see --help.

The one module of `cluster` that knows `workloads` and `analysis`: it hands their pure parts (data
files, schedules, the summary) to the session. It never imports torch.
"""

from __future__ import annotations

import argparse
import dataclasses
import errno
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # Ctrl-C ends us at once: a KeyboardInterrupt may get lost in an import
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from rich.console import Console

from analysis.summary.summarise import summarise
from cluster import PROJECT, doctor, environment, hosts, interruption, presets
from cluster.containers import engine as docker_engine
from cluster.engine import Engine, EngineError, EngineUnavailable, needs_containers
from cluster.existing import engine as spark_engine
from cluster.flags import make_experiments, make_parser
from cluster.namespaces import engine as netns_engine
from cluster.observe.progress import Progress, choose_progress
from cluster.observe.results_table import print_links, print_table
from cluster.observe.units import bytes_text
from cluster.session import Session
from cluster.spec.catalogue import DATASETS, MODELS
from cluster.spec.consensus import choose_schedule
from cluster.spec.documents.summary import Summary
from cluster.spec.errors import SpecError
from cluster.spec.experiment import ENGINES, EXISTING, Experiment
from cluster.spec.run_folder import new_session
from workloads.data.datasets import DataError, default_data_dir
from workloads.data.prepare import prepare_all
from workloads.models.pretrained import Chooser


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = make_parser()
    args = parser.parse_args(arguments)
    if args.doctor:
        return doctor.report()
    os.umask(0o022)  # nodes are another user, who must be able to read what we write
    try:
        interruption.listen()
        return measure(args, arguments)
    except (SpecError, DataError, EngineUnavailable) as error:
        print(f"measure: {error}", file=sys.stderr)
        return 2
    except EngineError as error:
        print(f"measure: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
            raise
        print(f"measure: {error.filename or args.output}: {error.strerror}", file=sys.stderr)
        return 1
    except interruption.Interrupted as interrupted:
        print("measure: interrupted; nodes are stopped, what was measured is kept", file=sys.stderr)
        return interrupted.code


def measure(args: argparse.Namespace, arguments: list[str]) -> int:
    progress = choose_progress(args.quiet)
    if args.preset is not None:
        progress.say(f"preset {args.preset}: {presets.title(args.preset)}")
    asked = args.engine if args.engine is not None else "auto"
    if asked not in ("auto", *ENGINES):
        raise SpecError(f"unknown engine {asked!r}; there is: auto, {', '.join(ENGINES)}")
    experiments = plan_runs(args, ENGINES[-1], progress)
    if args.prepare is not None:
        return prepare_hosts(args, arguments, experiments, progress)
    _check_output(args.output)
    name, reason = choose_engine(asked, experiments, args.spark_master)
    given = args.data_dir and _prepare_data(experiments, args.data_dir, progress)
    if asked == "auto" and name != EXISTING:
        progress.say(f"engine: {name} ({reason})")
    experiments = [settle(e, name, progress) for e in experiments]

    engine = OPEN[name](experiments, progress.say, args.spark_master)
    links = {link for experiment in experiments for link in experiment.links.values()}
    if links:
        engine.check_links(links)
    # What must be fetched, only when nothing else can be refused any more.
    data_folder = given or _prepare_data(experiments, None, progress)
    if any(experiment.cpus_by_rank for experiment in experiments):
        progress.say(f"CPUs are limited by {engine.about['cpu_limits']}")
    if any(experiment.total_memory for experiment in experiments):
        progress.say(f"memory is limited by {engine.about['memory_limits']}")
    _say_models(experiments, progress)
    folder = _open(args.output)
    session = Session(
        folder=folder,
        data_folder=data_folder,
        environment=environment.describe(["./measure.sh", *arguments], engine.about),
        engine=engine,
        summarise=summarise,
        progress=progress,
    )
    try:
        summaries = session.conduct(experiments)
    except KeyboardInterrupt:
        engine.remove_leftovers(folder.name)
        raise
    show(summaries, folder, args)
    return 0 if all(summary.status == "completed" for summary in summaries) else 1


def prepare_hosts(
    args: argparse.Namespace,
    arguments: list[str],
    experiments: list[Experiment],
    progress: Progress,
) -> int:
    for flag in ("engine", "spark_master", "data_dir"):
        if getattr(args, flag) is not None:
            raise SpecError(f"{flag} does not go with --prepare: the hosts are yours; leave it out")
    for flag in ("json", "no_report"):
        if getattr(args, flag):
            raise SpecError(
                f"{flag} does not go with --prepare, which trains nothing; leave it out"
            )
    experiment = settle(hosts.check(experiments, args.prepare), EXISTING, progress)
    about = environment.describe(["./measure.sh", *arguments], {"name": EXISTING})
    print(hosts.instructions(experiment, hosts.prepare(experiment, args.prepare, about)))
    return 0


def choose_engine(
    asked: str, experiments: list[Experiment], spark_master: str | None = None
) -> tuple[str, str]:
    """The engine, checked, and why: `auto` takes Docker when an engine answers, else namespaces."""
    if spark_master is not None:
        if asked != "auto":
            raise SpecError(f"spark_master names the nodes; leave out --engine {asked}")
        return EXISTING, spark_engine.check(experiments, spark_master)
    if asked == "netns":
        return asked, netns_engine.check(experiments)
    try:
        return "docker", docker_engine.check(experiments)
    except EngineUnavailable as missing:
        if asked == "docker" or needs_containers(experiments):
            raise
        netns_engine.check(experiments)
        return "netns", f"Linux namespaces, since {missing.reason}"


OPEN: dict[str, Callable[[list[Experiment], Callable[[str], None], str | None], Engine]] = {
    "docker": docker_engine.open_engine,
    "netns": netns_engine.open_engine,
    EXISTING: spark_engine.open_engine,
}


def write_report(folder: Path) -> Path | None:
    """The session's report, by a process of its own: the command line needs no pandas."""
    command = [
        sys.executable,
        "-m",
        "analysis.network_report",
        str(folder),
        "--output",
        str(folder),
    ]
    written = subprocess.run(command, cwd=PROJECT, capture_output=True)
    return folder / "report.html" if written.returncode == 0 else None


def show(summaries: list[Summary], folder: Path, args: argparse.Namespace) -> None:
    """The table on standard error; with --json the summaries on standard output."""
    console = Console(stderr=True)
    # A narrow window folds the lines; rich would cut numbers off.
    console.width = max(console.width, 120) if console.is_terminal else 200
    print_table(summaries, console)
    print_links(summaries, console)
    for summary in summaries:
        if args.quiet and summary.error is not None:  # else it was said when it happened
            print(f"{summary.run}: {summary.status}: {summary.error}", file=sys.stderr)
    print(f"run folders: {folder}", file=sys.stderr)
    if not args.no_report:
        written = write_report(folder)
        report = written or "could not be written; try python -m analysis.network_report"
        print(f"report: {report}", file=sys.stderr)
    if args.json:
        print(json.dumps([summary.to_json() for summary in summaries], indent=1))


def _prepare_data(experiments: list[Experiment], given: Path | None, progress: Progress) -> Path:
    """The folder that nodes read; a cache that may be empty where no run takes data."""
    names = [e.dataset for e in experiments if e.dataset is not None and e.dataset != "none"]
    names += [w for e in experiments if e.model in MODELS and (w := MODELS[e.model].weights)]
    if not names:
        if given is not None:
            raise SpecError(
                f"data_dir does not apply to model {experiments[0].model}: it has no data"
            )
        folder = default_data_dir() / "mnist"
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    folder = prepare_all(names, given, say=progress.say)
    docker_engine.note_data_folder(folder)
    return folder


def _say_models(experiments: list[Experiment], progress: Progress) -> None:
    for name, dataset in dict.fromkeys((e.model, e.dataset) for e in experiments):
        if name in MODELS:
            count = MODELS[name].parameters
            size = bytes_text(4 * count)
            progress.say(f"model: {name} on {dataset}, {count:,} parameters, {size}")


def settle(experiment: Experiment, engine: str, progress: Progress) -> Experiment:
    """Fill in what was left to us: the engine, and the schedule where it is `auto`."""
    schedule = experiment.schedule
    if schedule == "auto":
        assert experiment.passes is not None
        schedule = _chosen_schedule(
            experiment.workers, experiment.passes, experiment.seed, progress
        )
    return dataclasses.replace(experiment, engine=engine, schedule=schedule)


@functools.cache
def _chosen_schedule(workers: int, passes: int, seed: int, progress: Progress) -> str:
    choice = choose_schedule(workers, passes, seed)
    progress.say(
        f"schedule for {workers} workers, passes {passes}: {choice.schedule} ({choice.why})"
    )
    return choice.schedule


def plan_runs(args: argparse.Namespace, engine: str, progress: Progress) -> list[Experiment]:
    """All that were asked for, with what is chosen for a workload; said when nothing of it is refused."""
    choose = Chooser(args.data_dir)
    experiments = make_experiments(args, engine, choose)
    for experiment in experiments:
        available = DATASETS[str(experiment.dataset)].train_size
        if experiment.train_size > available:
            raise SpecError(
                f"train_size {experiment.train_size:,} is more than the {available:,} training"
                f" samples of {experiment.dataset}"
            )
    for line in choose.lines.values():
        progress.say(line)
    return experiments


def _check_output(output: Path) -> None:
    """Before anything is made: is there a folder that we may write to?"""
    try:
        existing = next(p for p in [output.absolute(), *output.absolute().parents] if p.exists())
    except OSError as error:
        raise SpecError(f"output {output} cannot be written: {error.strerror}") from error
    if not existing.is_dir():
        raise SpecError(f"output {output}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise SpecError(f"output {output}: no permission to write in {existing}")


def _open(output: Path) -> Path:
    try:
        return new_session(output.resolve())
    except OSError as error:
        raise SpecError(f"output {output} cannot be written: {error.strerror}") from error


if __name__ == "__main__":
    sys.unraisablehook = interruption.say_again
    sys.exit(main())
