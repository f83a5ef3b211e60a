"""The process on a node: python -m workloads.worker. Everything comes from the environment.

    RANK, MASTER_ADDR, MASTER_PORT   as torchrun sets them
    GRADWIRE_RUNS                    run folders, one a line, done in that order
    GRADWIRE_RECORD                  1: write events, log and model into the run folder; else print
    GRADWIRE_DATA                    the folder with the data set's files

torch is imported once; each run gets a fresh child, so runs of a sweep share a node but no state.
When recording, the worker waits for a run's spec.json to appear, which is the host's "go", and stays
after the last run until it is stopped, so that the host can read the counters at rest.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch  # noqa: F401  imported here, before the first fork, so that it is paid for once

from cluster.run_folder import RunFolder, node_name
from workloads import training
from workloads.event_log import EventLog

PATIENCE_S = 120.0
"""How long a node waits for its host before it gives up and leaves by itself."""


@dataclass(frozen=True)
class Settings:
    rank: int
    runs: tuple[RunFolder, ...]
    record: bool
    data_folder: Path

    @classmethod
    def from_environment(cls) -> Settings:
        try:
            runs = os.environ["GRADWIRE_RUNS"].splitlines()
            return cls(
                rank=int(os.environ["RANK"]),
                runs=tuple(RunFolder(Path(run)) for run in runs),
                record=os.environ.get("GRADWIRE_RECORD") == "1",
                data_folder=Path(os.environ["GRADWIRE_DATA"]),
            )
        except KeyError as error:
            sys.exit(f"worker: {error.args[0]} is not set; {__doc__}")


def main() -> int:
    settings = Settings.from_environment()
    for folder in settings.runs:
        if settings.record and not _appears(folder.spec):
            print(f"worker: {folder.spec} did not appear within {PATIENCE_S:g} s", file=sys.stderr)
            return 3
        code = _in_child(lambda folder=folder: run_once(folder, settings))  # type: ignore[misc]
        if code != 0:
            return code
    if settings.record:
        time.sleep(PATIENCE_S)
    return 0


def run_once(folder: RunFolder, settings: Settings) -> None:
    node = node_name(settings.rank)
    if settings.record:
        descriptor = os.open(
            folder.log(settings.rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
    log = EventLog(folder.events(settings.rank) if settings.record else None, node)
    try:
        experiment = folder.read_experiment()
        training.train(
            experiment,
            settings.rank,
            settings.data_folder,
            log,
            folder if settings.record else None,
        )
    except BaseException as error:
        log.write("error", message=f"{type(error).__name__}: {error}".splitlines()[0])
        raise


def _appears(path: Path) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _in_child(work: Callable[[], None]) -> int:
    """Run it in a fork; its exit code, or 128 + the signal that ended it."""
    child = os.fork()
    if child == 0:
        faulthandler.enable()
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def stop(*_: object) -> None:
        os.kill(child, signal.SIGKILL)
        sys.exit(143)

    signal.signal(signal.SIGTERM, stop)
    _, status = os.waitpid(child, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


if __name__ == "__main__":
    sys.exit(main())
