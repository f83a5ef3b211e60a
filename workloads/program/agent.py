"""A user's program on one node: started with its launcher's variables, observed, and its end told.

The program is as it is anywhere else. Its working folder is writable and ends up in the run folder;
its own folder is read-only. A process that fails ends the others of its node.
"""

import contextlib
import os
import re
import signal
import socket
import tempfile
import time
from pathlib import Path

from cluster.spec.documents.events import End, Exited, Hello, Phase
from cluster.spec.documents.node_files import NodeFiles, plain_text
from cluster.spec.experiment import Experiment
from workloads.comm.rendezvous import await_rendezvous
from workloads.counters.interfaces import full_segment_bytes, network_id
from workloads.event_log import EventLog
from workloads.program import command
from workloads.program.processes import Process, Processes
from workloads.program.report import NodeReport

CONTROL_S = 0.02
"""How often control traffic is looked for, with launchers that have any."""
LOOK_S = 0.25
"""How often open connections are read, and what processes told."""
LOG_TAIL = 20_000
ERROR_LINE = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Warning)\b.*")
MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
LONGEST_WORDS = 300
RENDEZVOUS_S = 60.0


class ProgramFailed(Exception):
    """A process of the program ended with another exit code than 0; one sentence."""


def run_program(experiment: Experiment, node: int, log: EventLog, files: NodeFiles | None) -> None:
    """The whole run of one node; ProgramFailed where a process fails.

    Without `files`, where nothing is recorded, it works in a temporary folder.
    """
    work = Path(tempfile.mkdtemp()) if files is None else files.work
    told = work / ".gradwire"
    told.touch()
    report = NodeReport(log, told)
    report.boundary(Phase, phase="setup")
    log.write(
        Hello(
            node=log.node,
            rank=node,
            workers=experiment.workers,
            host=socket.gethostname(),
            network=network_id(),
            segment_bytes=full_segment_bytes(),
        )
    )
    _open_rendezvous(experiment, node)
    report.boundary(Phase, phase="train")
    processes = Processes.start(experiment, node, told, work)
    failed = _watch(processes, report, experiment.launcher == "horovod")
    if failed is not None:
        processes.end()
    report.close()
    told.unlink(missing_ok=True)
    for process in processes.all:
        log.write(
            Exited(
                local_rank=process.local_rank,
                code=process.code or 0,
                cpu_s=process.cpu_s,
                memory_bytes=process.memory_bytes,
            )
        )
    if failed is not None:
        raise ProgramFailed(_describe(experiment, failed, files.log if files else None))
    report.boundary(End)


def _watch(processes: Processes, report: NodeReport, has_control: bool) -> Process | None:
    """Until all have ended, or one has failed, which is returned."""
    looked_at = 0.0
    while True:
        if has_control:
            report.look_for_idle()
        failed = processes.poll()
        if failed is not None or processes.are_over:
            report.look()
            report.take()
            return failed
        if time.monotonic() - looked_at >= LOOK_S:
            looked_at = time.monotonic()
            report.look()
            report.take()
        processes.wait(CONTROL_S if has_control else LOOK_S)


def _open_rendezvous(experiment: Experiment, node: int) -> None:
    """Horovod's workers meet at an HTTP server, which node 0 has until its agent ends."""
    if experiment.launcher != "horovod":
        return
    if node == 0:
        from workloads.launchers.horovod_rendezvous import open_rendezvous

        slots = [experiment.nproc_per_node] * experiment.nodes
        open_rendezvous(command.HOROVOD_PORT, slots)
    await_rendezvous(RENDEZVOUS_S * experiment.slowdown, command.HOROVOD_PORT)


def _describe(experiment: Experiment, failed: Process, log: Path | None) -> str:
    """How it ended, with the last line of its traceback."""
    several = f" (local rank {failed.local_rank})" if experiment.nproc_per_node > 1 else ""
    text = f"{experiment.strategy}{several} {how_ended(failed.code or 0)}"
    said = "" if log is None else last_words(log)
    hint = ""
    if missing := MISSING.search(said):
        package = missing[1].partition(".")[0]
        hint = f"; put {package} into a file and add --requirements FILE"
    return f"{text}{f': {said}' if said else ''}{hint}"


def how_ended(code: int) -> str:
    if code > 128:
        return f"was ended by {signal.Signals(code - 128).name}"
    return f"ended with exit code {code}"


def last_words(log: Path) -> str:
    """The last line that names an error, else the last line."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, os.path.getsize(log) - LOG_TAIL))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if ERROR_LINE.match(line)]
        return plain_text((errors or lines or [""])[-1], LONGEST_WORDS)
    return ""
