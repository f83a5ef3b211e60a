"""The live view of a session: its page is made, served while the session runs, and ended with it.

The page is made once, by a process of its own: the command line needs no pandas. What changes on it
is polled from what the host has read of the nodes anyway.
"""

import contextlib
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from cluster import PROJECT
from cluster.engine import EngineError
from cluster.host.ownership import tied
from cluster.live.progress import LiveProgress
from cluster.live.server import Document, LoopbackServer
from cluster.live.session_view import SessionView
from cluster.observe.progress import Progress
from cluster.spec.documents.session_plan import SessionPlan
from cluster.spec.documents.summary import Summary

REPORT = "report.html"
STATE = "state.json"
LOOKED_S = 3.0
"""A browser that asked within this time is taken to look on."""
FAREWELL_S = 3.0
"""For such a browser to fetch the end of the session and the final report."""


def bind(port: int | None) -> LoopbackServer | None:
    """The server for --live PORT, 0 without a number; None without the flag.

    SpecError where the port cannot be had.
    """
    return None if port is None else LoopbackServer(port)


@contextlib.contextmanager
def live_view(
    server: LoopbackServer | None,
    session: Path,
    plan: SessionPlan,
    closed: Mapping[str, Summary],
    shown: Progress,
) -> Iterator[Progress]:
    """Gives the progress that feeds the page; `shown` has the terminal. The plan is written.

    `closed` are runs that were completed before. EngineError where the page cannot be made.
    """
    if server is None:
        yield shown
        return
    view = SessionView(plan, closed)
    page = make_page(session)
    documents = {
        "": Document("text/html", lambda _: page),
        STATE: Document("application/json", view.changes),
        REPORT: Document("text/html", lambda _: _read(session / REPORT)),
    }
    with server.serving(documents):
        print(f"live view: {server.address}", file=sys.stderr, flush=True)  # with --quiet too
        yield LiveProgress(shown, view)
        _finish(server, view, session / REPORT)


def make_page(session: Path) -> bytes:
    """The page of a session whose plan is written."""
    command = [sys.executable, "-m", "analysis.live", str(session)]
    answer = subprocess.run(tied(command), cwd=PROJECT, capture_output=True)
    if answer.returncode != 0:
        lines = answer.stderr.decode(errors="replace").strip().splitlines()
        reason = (lines or [f"exit code {answer.returncode}"])[-1]
        raise EngineError(f"the live view could not be made: {reason}; leave out --live")
    return answer.stdout


def _finish(server: LoopbackServer, view: SessionView, report: Path) -> None:
    """Tell a browser that looks on where the report is; return at once where there is none."""
    has_report = report.exists()
    view.finish(str(report) if has_report else "")
    finished = time.monotonic()
    if finished - server.answered_at.get(STATE, -math.inf) > LOOKED_S:
        return
    awaited = REPORT if has_report else STATE
    while time.monotonic() < finished + FAREWELL_S:
        if server.answered_at.get(awaited, 0.0) > finished:
            return
        time.sleep(0.05)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
