"""The folder that a session writes to, and what is shown when the session ends."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster import PROJECT
from cluster.engine import EngineError
from cluster.host.ownership import tied
from cluster.observe.progress import say_if_slow
from cluster.spec.documents.run_folder import new_session
from cluster.spec.documents.session_plan import COMPLETED, SessionFolder, SessionPlan
from cluster.spec.documents.summary import Summary
from cluster.spec.errors import SpecError


def check_output(output: Path) -> None:
    """SpecError where there is no folder that we may write to; nothing is made yet."""
    whole = output.absolute()
    existing = next(path for path in (whole, *whole.parents) if os.path.lexists(path))
    if not existing.is_dir():
        raise SpecError(f"output {output}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise SpecError(f"output {output}: no permission to write in {existing}")


def open_session(output: Path, plan: SessionPlan) -> SessionFolder:
    """A new session folder with its plan."""
    try:
        session = SessionFolder(new_session(output.resolve()))
        session.write_plan(plan)
    except OSError as error:
        raise SpecError(f"output {output} cannot be written: {error.strerror}") from error
    return session


def show(
    summaries: list[Summary], folder: Path, args: argparse.Namespace, say: Callable[[str], None]
) -> None:
    """The table and the report on standard error; with --json the summaries on standard output.

    EngineError where the report cannot be written, when all else is shown.
    """
    from rich.console import Console  # slow to import: --help and a mistake need no table

    from cluster.observe.results_table import print_links, print_table

    console = Console(stderr=True)
    # A narrow window folds the lines; rich would cut numbers off.
    console.width = max(console.width, 120) if console.is_terminal else 200
    print_table(summaries, console)
    print_links(summaries, console)
    for summary in summaries:
        if args.quiet and summary.error is not None:  # else it was said when it happened
            print(f"{summary.run}: {summary.status}: {summary.error}", file=sys.stderr)
    if folder.is_dir():  # else runs said that it was removed
        print(f"run folders: {folder}", file=sys.stderr)
    if args.json:
        print(json.dumps([_document(folder, summary) for summary in summaries], indent=1))
    if not args.no_report:
        with say_if_slow(say, "writing the report"):
            report = write_report(folder)
        print(f"report: {report}", file=sys.stderr)


def _document(folder: Path, summary: Summary) -> Any:
    """The whole summary.json of a run; of one whose folder was removed, what is left."""
    try:
        return json.loads((folder / summary.run / "summary.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return summary.to_json()


def show_interrupted(
    summaries: list[Summary], folder: Path, args: argparse.Namespace, say: Callable[[str], None]
) -> None:
    """The same of what there is, where a run is completed; and how to finish the session."""
    if any(summary.status == COMPLETED for summary in summaries):
        try:
            show(summaries, folder, args, say)
        except EngineError as error:
            print(f"measure: {error}", file=sys.stderr)
    print(f"to finish the session: ./measure.sh --resume {folder}", file=sys.stderr)


def write_report(folder: Path) -> Path:
    """Where the session's report is; EngineError where it could not be written.

    It is made by a process of its own: the command line needs no pandas.
    """
    command = [sys.executable, "-m", "analysis.network_report", str(folder)]
    command += ["--output", str(folder)]
    answer = subprocess.run(
        tied(command), cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if answer.returncode == 0:
        return folder / "report.html"
    reason = (answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"])[-1]
    again = f"python3 -m analysis.network_report {folder}"
    raise EngineError(f"the report could not be written: {reason}; to try again: {again}")
