"""The processes of a program on one node: started, watched, ended.

A node has its own process numbers, so all that run beside the agent are the program's.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from cluster.spec.documents.heartbeat import exit_code
from cluster.spec.experiment import Experiment
from workloads.program import command

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
GRACE_S = 2.0
"""From SIGTERM to SIGKILL for the other processes of a node on which one has failed."""


def read_node() -> tuple[bool, float]:
    """Whether a process of this node is stopped, and the CPU time of all; the node's own two
    processes are among them and use next to none."""
    is_stopped, ticks = False, 0
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            stat = Path(f"/proc/{number}/stat").read_bytes()
            fields = stat.rpartition(b")")[2].split()
            is_stopped = is_stopped or fields[0] in b"Tt"
            ticks += sum(int(field) for field in fields[11:15])  # with children that have ended
    return is_stopped, ticks / TICKS_PER_S


def ask_programs(agent: int) -> None:
    """Ask the processes that the agent started for their stacks (on_path/sitecustomize.py)."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            stat = Path(f"/proc/{number}/stat").read_bytes()
            if int(stat.rpartition(b")")[2].split()[1]) == agent:
                os.kill(int(number), signal.SIGUSR1)


@dataclass
class Process:
    number: int
    local_rank: int
    code: int | None = None
    """None while it runs."""
    cpu_s: float = 0.0
    memory_bytes: int = 0
    """The most that it had resident at a time."""

    def poll(self) -> int | None:
        if self.code is None:
            self._read_memory()
            ended, status, used = os.wait4(self.number, os.WNOHANG)
            if ended:
                self.code = exit_code(status)
                self.cpu_s = round(used.ru_utime + used.ru_stime, 3)
        return self.code

    def _read_memory(self) -> None:
        """VmHWM; ru_maxrss would begin with the memory of the process that forked it."""
        try:
            text = Path(f"/proc/{self.number}/status").read_text()
        except OSError:
            return
        _, found, rest = text.partition("VmHWM:")
        if found:
            self.memory_bytes = max(self.memory_bytes, int(rest.split()[0]) * 1024)

    def end(self, how: signal.Signals) -> None:
        if self.code is None:
            os.kill(self.number, how)


@dataclass(frozen=True)
class Processes:
    all: list[Process] = field(default_factory=list)

    @classmethod
    def start(cls, experiment: Experiment, node: int, told: Path, work: Path) -> "Processes":
        words, started = command.arguments(experiment), []
        for local_rank in range(experiment.nproc_per_node):
            variables = command.variables(experiment, node, local_rank, told, os.environ)
            popen = subprocess.Popen(words, env=variables, cwd=work, stdin=subprocess.DEVNULL)
            popen.returncode = 0  # it is waited for below: Popen must not
            started.append(Process(popen.pid, local_rank))
        return cls(started)

    def poll(self) -> Process | None:
        """Notes the processes that have ended; the first that failed."""
        for process in self.all:
            process.poll()
        return next((process for process in self.all if process.code), None)

    def wait(self, timeout_s: float) -> None:
        """Until one ends, or the time is over."""
        running = [process for process in self.all if process.code is None]
        ends = select.poll()
        descriptors = []
        with contextlib.suppress(OSError):
            for process in running:
                descriptors.append(os.pidfd_open(process.number))
                ends.register(descriptors[-1], select.POLLIN)
        ends.poll(timeout_s * 1000)
        for descriptor in descriptors:
            os.close(descriptor)

    @property
    def are_over(self) -> bool:
        return all(process.code is not None for process in self.all)

    def end(self) -> None:
        deadline = time.monotonic() + GRACE_S
        for process in self.all:
            process.end(signal.SIGTERM)
        while not self.are_over and time.monotonic() < deadline:
            self.poll()
            time.sleep(0.02)
        for process in self.all:
            process.end(signal.SIGKILL)
        while not self.are_over:
            self.poll()
            time.sleep(0.02)
