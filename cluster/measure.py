"""The command line: flags -> experiments -> runs -> table. Started by ./measure.sh; see --help.

The one module of `cluster` that knows `workloads` and `analysis`: it hands their pure parts (data
files, pretrained models, the summary) to the session. It never imports torch.
"""

import argparse
import contextlib
import os
import signal
import sys
from pathlib import Path

if __name__ == "__main__":  # Ctrl-C ends us at once: a KeyboardInterrupt may get lost in an import
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from analysis.predict.step_time import step_time
from analysis.summary.summarise import summarise
from cluster import environment, output, plan
from cluster.engine import AUTO, ENGINES, Engine, EngineError, EngineUnavailable, choose_engine
from cluster.existing.options import read_options
from cluster.existing.prepare import prepare_hosts
from cluster.flags import as_typed, parse
from cluster.host import interruption, leftovers, ownership, user_folders
from cluster.live import view as live
from cluster.observe.progress import Progress, choose_progress, say_if_slow
from cluster.session import Session
from cluster.spec.catalogue import files_of
from cluster.spec.command_line import run
from cluster.spec.documents.session_plan import COMPLETED, SessionFolder, SessionPlan
from cluster.spec.documents.summary import OUT_OF_MEMORY, Summary
from cluster.spec.errors import SpecError, file_problem
from cluster.spec.experiment import EXISTING, Experiment
from cluster.spec.own_code import is_foreign
from cluster.sweep import continuation, preview, resume
from workloads.data.dataset import DataError
from workloads.data.folders import default_data_dir
from workloads.data.prepare import prepare_all
from workloads.models.pretrained import Chooser


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        args = parse(arguments)
    except SpecError as error:
        print(f"measure: {as_typed(error)}", file=sys.stderr)
        return 2
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
        print(f"measure: {as_typed(error)}", file=sys.stderr)
        return 2
    except (DataError, EngineError, EngineUnavailable, OSError) as error:
        text = file_problem(error) if isinstance(error, OSError) else str(error)
        print(f"measure: {text}", file=sys.stderr)
        return 2 if isinstance(error, DataError | EngineUnavailable) else 1
    except interruption.Interrupted as interrupted:
        print("measure: interrupted; nodes are stopped, what was measured is kept", file=sys.stderr)
        return interrupted.code


def measure(args: argparse.Namespace, arguments: list[str]) -> int:
    progress = choose_progress(args.quiet)
    say, command = progress.say, ["./measure.sh", *arguments]
    if args.dry_run and args.live is not None:
        raise SpecError("live shows runs while they run, and --dry-run starts none: leave out one")
    if args.resume is not None:
        resume.check_flags(args)
        session, planned = resume.read_session(args.resume)
        return conduct(planned, session, args, progress)
    choose_model = Chooser(args.data_dir)
    with say_if_slow(say, "planning the runs"):
        if getattr(args, continuation.FLAG) is not None:
            experiments = [continuation.experiment_of(args)]
        else:
            experiments = plan.make_experiments(args, choose_model, say)
    for line in choose_model.lines.values():
        say(line)
    if args.prepare is not None:
        return prepare_hosts(args, command, experiments, say)
    if getattr(args, "for") is not None:
        raise SpecError("for goes with --prepare FOLDER; leave it out")
    reached = read_options(args, experiments)
    output.check_output(args.output)
    user_folders.check_output(experiments, args.output)
    with say_if_slow(say, "looking for an engine"):
        name, how = choose_engine(args.engine, experiments, reached)
    if args.data_dir is not None and not args.dry_run:
        _prepare_data(experiments, args.data_dir, progress)
    if args.engine in (None, AUTO) and name != EXISTING:
        say(f"engine: {name} ({how})")
    with say_if_slow(say, "choosing schedules"):
        experiments = plan.settle(experiments, name, say)
    planned = preview.make_plan(args, command, experiments, step_time, reached)
    if args.dry_run:
        preview.print_plan(planned, args.json)
        return 0
    return conduct(planned, None, args, progress)


def conduct(
    planned: SessionPlan, resumed: SessionFolder | None, args: argparse.Namespace, shown: Progress
) -> int:
    """Do the runs of a plan that are not completed, and show all of them."""
    say, server = shown.say, live.bind(args.live)
    with contextlib.ExitStack() as stack:
        closed = resume.take_up(resumed, planned, stack, say) if resumed else {}
        if resumed and len(closed) == len(planned.runs):
            output.show(list(closed.values()), resumed.path, args, say)
            return 0
        leftovers.remove_leftovers(say)
        engine, data_folder = _prepare(planned, closed, shown)
        folder = resumed or output.open_session(args.output, planned)
        if resumed:
            engine.remove_leftovers(folder.path.name)
        else:
            stack.enter_context(resume.held(folder))
        ownership.record(ownership.Kind.SESSION, str(folder.path))
        watched = live.live_view(server, folder.path, planned, closed, shown)
        session = Session(
            folder=folder.path,
            plan=planned,
            data_folder=data_folder,
            environment=environment.describe(planned.command, engine.about),
            engine=engine,
            summarise=summarise,
            progress=stack.enter_context(watched),
            closed=closed,
        )
        try:
            summaries = session.conduct()
        except KeyboardInterrupt:
            engine.remove_leftovers(folder.path.name)
            interruption.listen_again()
            output.show_interrupted(session.summaries, folder.path, args, say)
            raise
        output.show(summaries, folder.path, args, say)
        for summary in summaries:
            if summary.status != COMPLETED and planned.is_answered(summary):
                say(f"{summary.run} {OUT_OF_MEMORY}: an answer of this preset, not a failure")
        return 0 if all(map(planned.is_answered, summaries)) else 1


def _prepare(
    planned: SessionPlan, closed: dict[str, Summary], progress: Progress
) -> tuple[Engine, Path]:
    """The engine and the data folder of open runs; data is fetched when nothing else is refused."""
    runs = [e for name, e in planned.experiments().items() if name not in closed]
    module = ENGINES[runs[0].engine].load()
    engine = module.open_engine(runs, progress.say, planned.hosts)
    links = {link for run in runs for link in run.shaped_links.values()}
    paths = {path for run in runs for path in run.shaped_paths.values()}
    if links or paths:
        engine.check_links(links, paths)
    given = planned.data_dir and Path(planned.data_dir)
    data_folder = _prepare_data(runs, given or None, progress)
    preview.announce(planned, closed, engine, progress.say)
    return engine, data_folder


def _prepare_data(experiments: list[Experiment], given: Path | None, progress: Progress) -> Path:
    """The folder that nodes read; a cache that may be empty where no run takes data."""
    names = [name for e in experiments for name in files_of(e.model, e.dataset)]
    if not names:
        if given is not None and any(is_foreign(experiment.dataset) for experiment in experiments):
            return given
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


if __name__ == "__main__":
    sys.unraisablehook = interruption.raise_again
    run(main)
