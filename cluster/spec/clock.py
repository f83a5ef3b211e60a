"""The clock of events and samples: Unix time to read, monotonic time to subtract.

Times are CLOCK_MONOTONIC plus an offset that is taken once, so a step of the wall clock (NTP, a
person) changes no duration. All processes of one kernel share CLOCK_MONOTONIC: the host hands its
offset to the nodes in GRADWIRE_CLOCK, beside the boot identifier of its kernel, and a node takes it
where its own kernel is the same. Nodes elsewhere (a virtual machine, another host) take their own.
"""

import functools
import os
import time
from pathlib import Path

VARIABLE = "GRADWIRE_CLOCK"
BOOT = Path("/proc/sys/kernel/random/boot_id")


def now() -> float:
    """Unix time in seconds, as it was when the clock was first used plus what has passed since."""
    return _offset_s() + time.monotonic()


def shared() -> dict[str, str]:
    """The environment variable that gives nodes of the same kernel this process's clock."""
    return {VARIABLE: f"{_boot()} {_offset_s()!r}"}


@functools.cache
def _offset_s() -> float:
    boot, _, offset = os.environ.get(VARIABLE, "").partition(" ")
    return float(offset) if boot and boot == _boot() else time.time() - time.monotonic()


def _boot() -> str:
    try:
        return BOOT.read_text().strip()
    except OSError:
        return ""
