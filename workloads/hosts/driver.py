"""The driver of a host launcher, started by cluster/existing.

    python -m workloads.hosts LAUNCHER REQUEST

REQUEST is JSON: nodes, spread, options, runs, data, log. Lines on standard output are JSON, too:
`notice` for the person who waits; then either `workers`, the hosts of ranks 0, 1, ..., or
`complaint`; and `lost`, why a run cannot go on, with the `run` where the others can. A run begins
when its spec.json appears. The driver ends when its standard input does, even during a run.
"""

import contextlib
import importlib
import json
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from cluster.spec.documents.events import End
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.hosts import HostOptions
from workloads.event_log import EventLog
from workloads.hosts.entry import describe_host
from workloads.hosts.fit import differing, parse_facts
from workloads.hosts.launcher import (
    HostGone,
    HostLauncher,
    HostsError,
    HostsLost,
    Request,
)

DRIVER = "driver"
STOP_TIMEOUT_S = 8
LAUNCHERS = {
    "spark": ("workloads.hosts.spark", "SparkHosts"),
    "slurm": ("workloads.hosts.slurm", "SlurmHosts"),
    "ray": ("workloads.hosts.ray", "RayHosts"),
}
APPEAR_S = 0.02


def main(name: str, request: str) -> int:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # launchers' libraries print to it
    # Horovod forks, and a fork closes sys.stdin, which would block while this process reads it.
    end_of_input = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    module, kind = LAUNCHERS[name]
    asked = parse_request(json.loads(request), answers)
    launcher: HostLauncher = getattr(importlib.import_module(module), kind)(asked)
    threading.Thread(target=_listen, args=(end_of_input, launcher), daemon=True).start()
    with launcher:
        try:
            found = launcher.find_hosts()
            here = parse_facts(describe_host(launcher.packages))
            if differences := differing(found, here, launcher.chosen_by):
                raise HostsError(differences)
        except HostsError as error:
            _answer(answers, complaint=str(error))
            return 1
        _answer(answers, workers=found)
        if asked.spread:
            conduct_spread(launcher, asked, len(found), partial(_answer, answers))
        for run in () if asked.spread else asked.runs:
            await_spec(run)
            try:
                conduct(launcher, run, asked.data)
            except (HostsError, HostsLost) as error:
                _answer(answers, lost=str(error))
                return 1
        threading.Event().wait()  # for the end of standard input
    return 0


def parse_request(document: dict[str, Any], answers: TextIO) -> Request:
    return Request(
        nodes=document["nodes"],
        spread=document["spread"],
        options=HostOptions.from_json(document["options"]),
        runs=tuple(RunFolder(Path(run)) for run in document["runs"]),
        data=Path(document["data"]),
        log=Path(document["log"]),
        say=lambda text: _answer(answers, notice=text),
    )


def conduct(launcher: HostLauncher, run: RunFolder, data: Path, host: int | None = None) -> None:
    """One run, with the driver's own event log, whose end is the run's."""
    with contextlib.closing(EventLog(run.events_of(DRIVER), DRIVER)) as log:
        launcher.execute(run, data, host)
        log.boundary(End)


def conduct_spread(
    launcher: HostLauncher, asked: Request, hosts: int, answer: Callable[..., None]
) -> None:
    """Every host takes the next run when it has ended one; a host that is gone takes no more."""
    waiting = deque(asked.runs)

    def serve(host: int) -> None:
        while True:
            try:
                run = waiting.popleft()
            except IndexError:
                return
            await_spec(run)
            try:
                conduct(launcher, run, asked.data, host)
            except Exception as error:
                if not isinstance(error, HostsError | HostsLost):
                    traceback.print_exc()
                answer(lost=str(error) or type(error).__name__, run=run.name)
                if isinstance(error, HostGone):
                    return

    threads = [threading.Thread(target=serve, args=(k,), daemon=True) for k in range(hosts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in waiting:
        answer(lost="no host is left", run=run.name)


def await_spec(run: RunFolder) -> None:
    """The host starts a run when it likes; when it ends, so does this process."""
    while not run.spec.exists():
        time.sleep(APPEAR_S)


def _answer(answers: TextIO, **words: Any) -> None:
    answers.write(json.dumps(words) + "\n")


def _listen(end_of_input: TextIO, launcher: HostLauncher) -> None:
    """Until standard input ends; then end this process, even during a run."""
    end_of_input.read()
    threading.Timer(STOP_TIMEOUT_S, _end).start()
    launcher.close()
    _end()


def _end() -> None:
    """Kill the process group with Java and Horovod's forks: an exit would wait for threads."""
    os.killpg(os.getpgrp(), signal.SIGKILL)
