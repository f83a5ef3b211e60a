"""Run the real command line from a test, and find what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.host.ownership import PREFIX, VARIABLE

PROJECT = Path(__file__).resolve().parent.parent
PATIENCE_S = 500
"""After this a measure is taken to hang; less than a test's timeout. No test asserts it."""
SILENCE_S = 100
"""A dead node must be noticed sooner than by the workers' own timeout of two minutes."""
COMMAND = [sys.executable, "-m", "cluster.measure"]


@dataclass(frozen=True)
class Measured:
    code: int
    summaries: list[dict[str, Any]]
    stderr: str


Sweeps = Sequence[dict[str, str]]
"""Options of several sweeps in one session, beside the flags that all have."""


def start(*flags: str, prefix: tuple[str, ...] = (), sweeps: Sweeps = ()) -> subprocess.Popen[str]:
    several = [sys.executable, "-m", "tests.several_sweeps", json.dumps(sweeps)]
    return subprocess.Popen(
        [*prefix, *(several if sweeps else COMMAND), *flags, "--json", "--no-report"],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> Measured:
    try:
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.communicate()
        raise
    return Measured(process.returncode, json.loads(stdout) if stdout else [], stderr)


def measure(*flags: str, prefix: tuple[str, ...] = (), sweeps: Sweeps = ()) -> Measured:
    return finish(start(*flags, prefix=prefix, sweeps=sweeps))


def one(measured: Measured) -> dict[str, Any]:
    """The summary of a session with one run that must have completed."""
    assert measured.code == 0, measured.stderr
    (summary,) = measured.summaries
    return summary


def await_handlers(process: subprocess.Popen[str]) -> None:
    """Wait until a measure handles signals; before that they simply end it."""
    while process.poll() is None:
        status = Path(f"/proc/{process.pid}/status").read_text()
        if int(status.partition("SigCgt:\t")[2].split()[0], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


def await_steps(output: Path, steps: int = 1, run: str = "*") -> Path:
    """Wait until every worker of a run below `output` has made some steps; the run's folder."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for spec in output.glob(f"*/{run}/spec.json"):
            workers = range(json.loads(spec.read_text())["workers"])
            files = [spec.parent / "events" / f"node{rank}.jsonl" for rank in workers]
            if all(_steps_in(file) >= steps for file in files):
                return spec.parent
        time.sleep(0.05)
    raise AssertionError(f"no training step below {output} within {PATIENCE_S} s")


def _steps_in(events: Path) -> int:
    """Steps in whole lines: the last one may be incomplete."""
    text = events.read_text() if events.exists() else ""
    return text.rpartition("\n")[0].count('"event":"step"')


def processes_of(output: Path) -> list[int]:
    """Processes of runs below `output`, by the folder in their command line."""
    found = []
    for process in _all_processes():
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            if str(output).encode() in command and process != os.getpid():
                found.append(process)
    return found


def owned_processes(measure: int, name: str = "") -> list[int]:
    """Processes that a measure has started, by the owner in their environment and their command."""
    found = []
    for process in _all_processes():
        with contextlib.suppress(OSError):
            folder = Path(f"/proc/{process}")
            is_owned = f"{VARIABLE}={measure}-".encode() in (folder / "environ").read_bytes()
            if is_owned and name.encode() in (folder / "cmdline").read_bytes():
                found.append(process)
    return sorted(found)


def record_of(measure: int) -> list[Path]:
    """The folder with the record of a measure, if it is there."""
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{measure}-*"))


def worker_processes(output: Path) -> list[int]:
    """The training processes, by rank. A node and its forked worker have the same name."""
    names, parents = {}, {}
    for process in processes_of(output):
        with contextlib.suppress(OSError):  # one that has just ended
            text = Path(f"/proc/{process}/stat").read_text()
            name, _, fields = text.partition("(")[2].rpartition(")")
            names[process], parents[process] = name, int(fields.split()[1])
    workers = [p for p, name in names.items() if names.get(parents[p]) == name != "python"]
    return sorted(workers, key=lambda process: names[process])


def network_namespaces(processes: Iterable[int] | None = None) -> set[int]:
    """Numbers of the network namespaces that these processes live in (None: all processes)."""
    found = set()
    for process in processes if processes is not None else _all_processes():
        with contextlib.suppress(OSError):
            found.add(os.stat(f"/proc/{process}/ns/net").st_ino)
    return found


@contextlib.contextmanager
def kept_namespaces(output: Path) -> Iterator[set[int]]:
    """Numbers of the network namespaces of runs below `output`, but for ours.

    They are held open: the kernel reuses the number of a removed one, for another test perhaps.
    """
    with contextlib.ExitStack() as held:
        found = set()
        for process in processes_of(output):
            with contextlib.suppress(OSError):
                file = held.enter_context(open(f"/proc/{process}/ns/net"))
                found.add(os.fstat(file.fileno()).st_ino)
        yield found - network_namespaces([os.getpid()])


def links() -> set[str]:
    """Names of the host's network interfaces, but for Docker's, which other tests create."""
    return {name for name in os.listdir("/sys/class/net") if not name.startswith(("br-", "veth"))}


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def gone(find: Callable[[], object]) -> bool:
    """Whether nothing is found soon: the kernel removes namespaces a little after their process."""
    deadline = time.monotonic() + 60
    while find():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
