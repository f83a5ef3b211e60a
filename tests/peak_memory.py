"""The peak memory of a process.

Not ru_maxrss, which for a child begins with the memory of the process that started it.
"""

from pathlib import Path


def peak_bytes(process: int | str = "self") -> int:
    """The most memory it has had at once; 0 after its end."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
