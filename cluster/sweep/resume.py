"""--resume SESSION: finish a session that was interrupted or killed; completed runs are kept.

A run that was cut off, was interrupted or failed is removed and run anew under its own name.
"""

import argparse
import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

from cluster.host import node_folders
from cluster.host.ownership import Kind, all_belongings
from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.session_plan import SessionFolder, SessionPlan
from cluster.spec.documents.summary import Summary
from cluster.spec.errors import SpecError

BESIDE = ("resume", "live", "quiet", "json", "no_report", "output")
"""Flags that go with --resume; output is where the session is."""


def check_flags(args: argparse.Namespace) -> None:
    """SpecError for a flag that would change the session's plan."""
    for name, value in vars(args).items():
        if value not in (None, False) and name not in BESIDE:
            raise SpecError(
                f"{name} does not go with --resume, which does the rest of the session's own"
                " runs; leave it out"
            )


def read_session(path: Path) -> tuple[SessionFolder, SessionPlan]:
    """The session to resume; SpecError where there is none."""
    session = SessionFolder(path.resolve())
    if not session.path.is_dir():
        raise SpecError(f"resume {path}: there is no such folder")
    if not session.plan.exists():
        raise SpecError(f"resume {path} is no session that can be resumed: {_why_not(session)}")
    try:
        plan = session.read_plan()
        plan.experiments()
    except (DocumentError, SpecError) as error:
        raise SpecError(f"resume {path}: {error}") from None
    if not plan.runs:
        raise SpecError(f"resume {path}: its {session.plan.name} has no runs")
    return session, plan


def _why_not(session: SessionFolder) -> str:
    if SessionFolder(session.path.parent).plan.exists():
        return f"it is a run; name its session, {session.path.parent}"
    below = sorted(session.path.glob(f"*/{session.plan.name}"))
    if below:
        return f"it holds sessions; name one, such as {below[-1].parent}"
    return f"it has no {session.plan.name}, which every session has from its start"


@contextlib.contextmanager
def held(session: SessionFolder) -> Iterator[None]:
    """Hold the session; SpecError where another process has it. The kernel lets go of it."""
    with session.plan.open("rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SpecError(
                f"resume {session.path}: the session is still running{_process(session)};"
                " wait until it ends, or stop it"
            ) from None
        except OSError:
            pass  # a file system without locks
        yield


def _process(session: SessionFolder) -> str:
    for belongings in all_belongings():
        if str(session.path) in belongings.of(Kind.SESSION) and not belongings.owner.has_ended():
            return f" (process {belongings.owner.process})"
    return ""


def take_up(
    session: SessionFolder,
    plan: SessionPlan,
    stack: contextlib.ExitStack,
    say: Callable[[str], None],
) -> dict[str, Summary]:
    """Hold the session while the stack lasts; its completed runs, which are not repeated."""
    stack.enter_context(held(session))
    for folder in session.path.glob(f"{node_folders.PREFIX}*"):  # of a killed measure
        node_folders.remove(folder)
    completed = session.read_completed(plan)
    if len(completed) == len(plan.runs):
        say(f"all {len(plan.runs)} runs of {session.path.name} are completed already")
    else:
        say(f"{len(completed)} of {len(plan.runs)} runs of {session.path.name} are completed")
    return completed
