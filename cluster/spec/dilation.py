"""Time dilation: how many times slower than by itself an emulated cluster runs. Pure.

With dilation K links have rate/K and K times their delay, pretended compute takes K times as long,
and every node has cores/K of this host. All of it together is the same cluster in slow motion: its
seconds, divided by K, are those of nodes with cores of their own (docs/time.md).
"""

import math

AUTO = "auto"
UNDILATED = 1.0
HIGHEST = 100.0
RESERVE = 0.1
"""Share of the host's cores for its own work, where nodes share cores."""
PERIOD_US, LONGEST_PERIOD_US = 10_000, 1_000_000
"""The kernel looks at quotas in its ticks, of 4 ms at 250 Hz: of half a core, a period of 2 ms
gives 70 %, one of 5 ms 84 %, and one of 10 ms 100 % (2026-11-18, Linux 6.18)."""
LEAST_QUOTA_US = 1_000
LEAST_CORES = LEAST_QUOTA_US / LONGEST_PERIOD_US
STEP = 0.1
"""`auto` is a multiple of it."""


def parse_dilation(text: str) -> str | float:
    """`auto`, or a factor of 1 to HIGHEST; ValueError for anything else."""
    if text == AUTO:
        return AUTO
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 1 <= factor <= HIGHEST:
        raise ValueError(f"{text!r} is no factor of 1 to {HIGHEST:g}, nor {AUTO}")
    return factor


def least_dilation(node_cores: float, host_cores: int) -> float:
    """The least factor at which nodes with so many cores in all fit on the host's cores."""
    if node_cores <= host_cores:
        return UNDILATED
    factor = node_cores / (host_cores * (1 - RESERVE))
    return round(math.ceil(round(factor / STEP, 6)) * STEP, 6)


def cpu_quota(cores: float) -> tuple[int, int]:
    """Quota and period of a control group that limits a node to so many cores, microseconds.

    A node that has used its quota stands still until the period ends. The usual period of 100 ms is
    longer than many steps; the kernel takes a quota of 1 ms at the least.
    """
    period_us = max(PERIOD_US, math.ceil(LEAST_QUOTA_US / cores))
    return round(cores * period_us), period_us
