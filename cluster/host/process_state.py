"""Whether a process was stopped, by a signal or by its control group. Standard library only."""

from pathlib import Path

STOPPED, FROZEN = "stopped", "frozen by its control group"
STOPPED_STATES = ("T", "t")
"""States in /proc/PID/stat: stopped by a signal, or by a debugger."""
ROOT = Path("/sys/fs/cgroup")


def how_stopped(process: int) -> str | None:
    """None for a process that runs, and for one that has ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None
    if state in STOPPED_STATES:
        return STOPPED
    return FROZEN if is_group_frozen(process) else None


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
