"""The command line: flags -> experiments -> runs -> table. Started by ./measure.sh; see --help.

The one module of `cluster` that knows `workloads` and `analysis`: it hands their pure parts (data
files, pretrained models, the summary) to the session. It never imports torch.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

if __name__ == "__main__":  # Ctrl-C ends us at once: a KeyboardInterrupt may get lost in an import
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from analysis.summary.summarise import summarise
from cluster import environment, hosts, output, plan, presets
from cluster.engine import AUTO, ENGINES, Engine, EngineError, EngineUnavailable, choose_engine
from cluster.flags import as_typed, make_parser
from cluster.host import interruption, leftovers, ownership
from cluster.observe.progress import Progress, choose_progress, say_if_slow
from cluster.observe.units import bytes_text
from cluster.session import Session
from cluster.spec.catalogue import MODELS, files_of
from cluster.spec.command_line import run
from cluster.spec.errors import SpecError, file_problem
from cluster.spec.experiment import EXISTING, Experiment
from workloads.data.dataset import DataError
from workloads.data.folders import default_data_dir
from workloads.data.prepare import prepare_all
from workloads.models.pretrained import Chooser


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    args = make_parser().parse_args(arguments)
    if args.doctor:
        from cluster import doctor

        return doctor.report()
    if args.clean:
        return leftovers.clean(print)
    os.umask(0o022)  # nodes are another user, who must be able to read what we write
    os.environ[ownership.VARIABLE] = str(ownership.Owner.current())  # for all it starts
    try:
        interruption.listen()
        return measure(args, arguments)
    except SpecError as error:
        print(f"measure: {as_typed(str(error))}", file=sys.stderr)
        return 2
    except (DataError, EngineUnavailable) as error:
        print(f"measure: {error}", file=sys.stderr)
        return 2
    except EngineError as error:
        print(f"measure: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # such as a full disk
        print(f"measure: {file_problem(error)}", file=sys.stderr)
        return 1
    except interruption.Interrupted as interrupted:
        print("measure: interrupted; nodes are stopped, what was measured is kept", file=sys.stderr)
        return interrupted.code


def measure(args: argparse.Namespace, arguments: list[str]) -> int:
    progress = choose_progress(args.quiet)
    say, command = progress.say, ["./measure.sh", *arguments]
    if args.preset is not None:
        say(f"preset {args.preset}: {presets.title(args.preset)}")
    choose_model = Chooser(args.data_dir)
    with say_if_slow(say, "planning the runs"):
        experiments = plan.make_experiments(args, choose_model)
    for line in choose_model.lines.values():
        say(line)
    if args.prepare is not None:
        return prepare_hosts(args, command, experiments, progress)
    output.check_output(args.output)
    leftovers.remove_leftovers(say)
    with say_if_slow(say, "looking for an engine"):
        name, how = choose_engine(args.engine, experiments, args.spark_master)
    given = args.data_dir and _prepare_data(experiments, args.data_dir, progress)
    if args.engine in (None, AUTO) and name != EXISTING:
        say(f"engine: {name} ({how})")
    with say_if_slow(say, "choosing schedules"):
        experiments = plan.settle(experiments, name, say)

    engine = ENGINES[name].load().open_engine(experiments, say, args.spark_master)
    links = {link for experiment in experiments for link in experiment.links.values()}
    if links:
        engine.check_links(links)
    # What must be fetched, only when nothing else can be refused any more.
    data_folder = given or _prepare_data(experiments, None, progress)
    _announce(experiments, engine, progress)
    folder = output.open_session(args.output)
    ownership.record(ownership.Kind.SESSION, str(folder))
    session = Session(
        folder=folder,
        data_folder=data_folder,
        environment=environment.describe(command, engine.about),
        engine=engine,
        summarise=summarise,
        progress=progress,
    )
    try:
        summaries = session.conduct(experiments)
    except KeyboardInterrupt:
        engine.remove_leftovers(folder.name)
        raise
    output.show(summaries, folder, args, say)
    return 0 if all(summary.status == "completed" for summary in summaries) else 1


def prepare_hosts(
    args: argparse.Namespace, command: list[str], experiments: list[Experiment], progress: Progress
) -> int:
    """--prepare: write the run's folder, and print what to type on the user's own hosts."""
    for flag in ("engine", "spark_master", "data_dir"):
        if getattr(args, flag) is not None:
            raise SpecError(f"{flag} does not go with --prepare: the hosts are yours; leave it out")
    for flag in ("json", "no_report"):
        if getattr(args, flag):
            raise SpecError(
                f"{flag} does not go with --prepare, which trains nothing; leave it out"
            )
    hosts.check(experiments, args.prepare)
    (experiment,) = plan.settle(experiments, EXISTING, progress.say)
    about = environment.describe(command, {"name": EXISTING})
    print(hosts.instructions(experiment, hosts.prepare(experiment, args.prepare, about)))
    return 0


def _prepare_data(experiments: list[Experiment], given: Path | None, progress: Progress) -> Path:
    """The folder that nodes read; a cache that may be empty where no run takes data."""
    names = [name for e in experiments for name in files_of(e.model, e.dataset)]
    if not names:
        if given is not None:
            raise SpecError(
                f"data_dir does not apply to model {experiments[0].model}: it has no data"
            )
        folder = default_data_dir() / "mnist"
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    with say_if_slow(progress.say, f"checking the files of {', '.join(dict.fromkeys(names))}"):
        folder = prepare_all(names, given, say=progress.say)
    environment.note_data_folder(folder)
    return folder


def _announce(experiments: list[Experiment], engine: Engine, progress: Progress) -> None:
    """How limits are kept, and which models are trained."""
    if any(experiment.cpus_by_rank for experiment in experiments):
        progress.say(f"CPUs are limited by {engine.about['cpu_limits']}")
    if any(experiment.total_memory for experiment in experiments):
        progress.say(f"memory is limited by {engine.about['memory_limits']}")
    for name, dataset in dict.fromkeys((e.model, e.dataset) for e in experiments):
        if name in MODELS:
            count = MODELS[name].parameters
            size = bytes_text(4 * count)
            progress.say(f"model: {name} on {dataset}, {count:,} parameters, {size}")


if __name__ == "__main__":
    sys.unraisablehook = interruption.raise_again
    run(main)
