"""Run the real command line from a test, and look at what is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
PATIENCE_S = 500
"""After which a measure is taken to hang; less than a test's own limit. No time is asserted by it."""
COMMAND = [sys.executable, "-m", "cluster.measure"]


@dataclass(frozen=True)
class Measured:
    code: int
    summaries: list[dict[str, Any]]
    stderr: str


def start(*flags: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, *COMMAND, *flags, "--json", "--no-report"],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], timeout_s: float = PATIENCE_S) -> Measured:
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.communicate()
        raise
    return Measured(process.returncode, json.loads(stdout) if stdout else [], stderr)


def measure(*flags: str, prefix: tuple[str, ...] = ()) -> Measured:
    return finish(start(*flags, prefix=prefix))


def one(measured: Measured) -> dict[str, Any]:
    """The summary of a session with one run that must have completed."""
    assert measured.code == 0, measured.stderr
    (summary,) = measured.summaries
    return summary


def await_steps(output: Path, steps: int = 1, timeout_s: float = 180) -> Path:
    """Wait until every worker of a run below `output` has made some steps; the run's folder."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for spec in output.glob("*/*/spec.json"):
            workers = range(json.loads(spec.read_text())["workers"])
            files = [spec.parent / "events" / f"node{rank}.jsonl" for rank in workers]
            if all(_steps_in(file) >= steps for file in files):
                return spec.parent
        time.sleep(0.05)
    raise AssertionError(f"no training step below {output} within {timeout_s} s")


def _steps_in(events: Path) -> int:
    return events.read_text().count('"event":"step"') if events.exists() else 0


def processes_of(output: Path) -> list[int]:
    """Processes that work for runs below `output`; the folder stands in their command line."""
    found = []
    for process in _all_processes():
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            if str(output).encode() in command and process != os.getpid():
                found.append(process)
    return found


def network_namespaces(processes: Iterable[int] | None = None) -> set[str]:
    """Identities of the network namespaces that these processes live in (None: all processes)."""
    found = set()
    for process in processes if processes is not None else _all_processes():
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{process}/ns/net"))
    return found


def links() -> set[str]:
    """Names of the host's own network interfaces."""
    return set(os.listdir("/sys/class/net"))


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def gone(find: Callable[[], object], timeout_s: float = 5) -> bool:
    """Is nothing found within a moment? The kernel removes namespaces a little after their process."""
    deadline = time.monotonic() + timeout_s
    while find():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
