"""Whether processes were stopped, and how they ended. Standard library only."""

import signal
from collections.abc import Mapping
from pathlib import Path

STOPPED, FROZEN = "stopped", "frozen by its control group"
STOPPED_STATES = ("T", "t")
"""States in /proc/PID/stat: stopped by a signal, or by a debugger."""
ROOT = Path("/sys/fs/cgroup")
LOOK_S = 1.0
GRACE_LOOKS = 5
"""A process that is stopped in more looks than these, one after the other, is frozen."""


class StartWatch:
    """Finds what is frozen while a cluster starts, before nodes have heartbeats.

    It counts looks, a LOOK_S apart: while this process itself does not run, none is counted.
    """

    def __init__(self) -> None:
        self._looks: dict[str, int] = {}

    def note(self, stopped: Mapping[str, str]) -> str | None:
        """`stopped`: what does not run, by name, and how. A sentence where it lasted too long."""
        self._looks = {name: self._looks.get(name, 0) + 1 for name in stopped}
        for name, looks in self._looks.items():
            if looks > GRACE_LOOKS:
                return f"{name} is frozen ({stopped[name]}) before training; run the measure again"
        return None


def how_stopped(process: int) -> str | None:
    """None for a process that runs, and for one that has ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None
    if state in STOPPED_STATES:
        return STOPPED
    return FROZEN if is_group_frozen(process) else None


def stopped_below(process: int) -> dict[str, str]:
    """By name, how this process and the ones below it were stopped, where they were."""
    found: dict[str, str] = {}
    folder = Path(f"/proc/{process}")
    try:
        if how := how_stopped(process):
            found[(folder / "comm").read_text().strip()] = how
        for children in folder.glob("task/*/children"):  # of every thread
            for child in children.read_text().split():
                found |= stopped_below(int(child))
    except OSError:  # it has ended
        pass
    return found


def processes_below(process: int) -> list[int]:
    """This process, its children, theirs and so on: the training process is the last."""
    found = [process]
    for parent in found:  # which grows meanwhile
        try:
            for children in Path(f"/proc/{parent}").glob("task/*/children"):
                found += map(int, children.read_text().split())
        except OSError:  # it has ended
            pass
    return found


def how_ended(code: int) -> str:
    """For a sentence: "was ended by SIGKILL", "ended with code 3"; 128 + n is signal n."""
    try:
        return f"was ended by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"ended with code {code}"


def is_group_frozen(process: int) -> bool:
    """Whether the freezer of its control group is closed: version 1, or version 2."""
    try:
        groups = Path(f"/proc/{process}/cgroup").read_text().splitlines()
    except OSError:
        return False
    for line in groups:
        number, controllers, path = line.split(":", 2)
        if controllers == "freezer":
            file, frozen = ROOT / "freezer" / path.lstrip("/") / "freezer.state", "FROZEN"
        elif number == "0":
            file, frozen = ROOT / path.lstrip("/") / "cgroup.events", "frozen 1"
        else:
            continue
        if file.exists() and frozen in file.read_text().splitlines():
            return True
    return False


def count_memory_kills() -> int:
    """How many processes this kernel has ended for lack of memory; 0 where it does not tell."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
