"""What a worker's threads ran, waited for a core, and were throttled, as the kernel counts.

CPU time is the process's clock, which keeps the time of threads that have ended. Waiting is the
second number of a thread's schedstat. Threads of one node mostly work in turn (compute, exchange),
and where several wait at once, as while their node is throttled, the step is as late as one of
them: so the longest wait counts, not the sum. A thread that ended in between is not counted.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

TASKS = "/proc/self/task"
CONTROL_GROUPS = Path("/sys/fs/cgroup")
NANOSECONDS = 1e9
THROTTLED = {b"throttled_time": 1e-9, b"throttled_usec": 1e-6}
"""Key of cpu.stat, in control groups of version 1 and 2 -> seconds of its unit."""


@dataclass(frozen=True)
class CpuUse:
    """Seconds of a span of time. None: the kernel does not tell."""

    cpu_s: float
    """All threads ran, summed."""
    wait_s: float | None
    """The thread that waited longest was ready to run and had no core, throttled time included."""
    throttled_s: float | None
    """The CPU limit stopped the node; None where no control group can be read."""


@dataclass(frozen=True)
class CpuReading:
    """Cumulative readings of one moment."""

    cpu_s: float
    waits_ns: dict[str, int] | None
    """By thread."""
    throttled_s: float | None

    def since(self, before: CpuReading) -> CpuUse:
        throttled_s = None
        if self.throttled_s is not None and before.throttled_s is not None:
            throttled_s = round(max(0.0, self.throttled_s - before.throttled_s), 6)
        cpu_s = round(max(0.0, self.cpu_s - before.cpu_s), 6)
        return CpuUse(cpu_s, longest_wait_s(before.waits_ns, self.waits_ns), throttled_s)


def longest_wait_s(before: dict[str, int] | None, after: dict[str, int] | None) -> float | None:
    """Of one thread between two readings. A thread that is new, or has the number of one that
    ended, has waited since it began."""
    if before is None or after is None:
        return None
    waits = (
        waited - before.get(thread, 0) if waited >= before.get(thread, 0) else waited
        for thread, waited in after.items()
    )
    return round(max(waits, default=0) / NANOSECONDS, 6)


class CpuClock:
    """Reads this process; 20 microseconds with eight threads, since files stay open.

    To be made in the process that it reads, after a fork.
    """

    def __init__(self, *, of_threads: bool = True) -> None:
        """Without `of_threads`, only the process's clock is read."""
        self._files: dict[str, int] = {}
        self._cpu_stat = open_cpu_stat() if of_threads else None
        self._is_counted = of_threads and is_counted()

    def read(self) -> CpuReading:
        waits = self._read_waits() if self._is_counted else None
        return CpuReading(time.process_time(), waits, self._read_throttled())

    def close(self) -> None:
        for thread in list(self._files):
            self._forget(thread)
        if self._cpu_stat is not None:
            os.close(self._cpu_stat)
            self._cpu_stat = None

    def _read_waits(self) -> dict[str, int]:
        """By thread, nanoseconds since it began."""
        threads = os.listdir(TASKS)
        for thread in self._files.keys() - set(threads):
            self._forget(thread)
        found = {}
        for thread in threads:
            try:
                if thread not in self._files:
                    self._files[thread] = os.open(f"{TASKS}/{thread}/schedstat", os.O_RDONLY)
                found[thread] = int(os.pread(self._files[thread], 100, 0).split()[1])
            except (OSError, IndexError):  # it has ended since
                self._forget(thread)
        return found

    def _forget(self, thread: str) -> None:
        file = self._files.pop(thread, None)
        if file is not None:
            os.close(file)

    def _read_throttled(self) -> float | None:
        return None if self._cpu_stat is None else throttled_s(os.pread(self._cpu_stat, 2000, 0))


def is_counted() -> bool:
    """Whether the kernel counts run-queue waits: no file on macOS, zeros where it is switched off.

    A process that reads this has run, so that its first number is not 0 where it counts.
    """
    try:
        return int(Path("/proc/self/schedstat").read_bytes().split()[0]) > 0
    except (OSError, IndexError, ValueError):
        return False


def throttled_s(cpu_stat: bytes) -> float | None:
    """Seconds in the text of a cpu.stat; None where the group has no limit to count for."""
    for line in cpu_stat.splitlines():
        key, _, value = line.partition(b" ")
        if key in THROTTLED:
            return int(value) * THROTTLED[key]
    return None


def open_cpu_stat() -> int | None:
    """The cpu.stat of this process's control group, open; None where it cannot be read."""
    try:
        own_groups = Path("/proc/self/cgroup").read_text()
    except OSError:
        return None
    for path in cpu_stat_paths(own_groups, CONTROL_GROUPS):
        try:
            return os.open(path, os.O_RDONLY)
        except OSError:
            continue
    return None


def cpu_stat_paths(own_groups: str, root: Path) -> list[Path]:
    """Where it may be, given /proc/self/cgroup, the likeliest first.

    A container may see its own group as the root of the tree, though the path names another.
    """
    found = []
    for line in own_groups.splitlines():
        number, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            trees = [root / "cpu", root / controllers]
        elif number == "0":
            trees = [root]
        else:
            continue
        found += [tree / path.lstrip("/") / "cpu.stat" for tree in trees]
        found += [tree / "cpu.stat" for tree in trees]
    return sorted(found, key=lambda path: path.parent == root)
