"""Contention on the host that all nodes share: host.csv, and a warning before the first run."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from cluster.observe.collector import CsvSampler, Rows, RowSource
from cluster.observe.units import percent_text
from cluster.spec import clock
from cluster.spec.documents.records import HostSample

PER_INTERVAL = 5
"""Readings per sampling interval: short runs need some, too. One takes 0.1 ms."""
LOOK_S = 0.3
"""The host is looked at so long before the first run; its ticks are 10 ms."""
BUSY_SHARE = 0.25
"""Of the cores' time: where others take more of it, a run that needs all cores is contended."""
WAY_OUT = "wait until it is idle, or use time dilation (--dilation {})"


class HostCollector(CsvSampler):
    """Samples of the host while a run lasts. There is no file where it does not tell (macOS)."""

    def __init__(self, path: Path, interval: float) -> None:
        def read() -> Rows:
            return [read_host().row()]

        readable = Path("/proc/stat").exists()
        sources = [RowSource("the host's cores", PER_INTERVAL, read)] if readable else []
        super().__init__(path, HostSample.COLUMNS, sources, interval)

    def __enter__(self) -> Self:
        return super().__enter__() if self._sources else self


def read_host() -> HostSample:
    ticks = os.sysconf("SC_CLK_TCK")
    busy, steal, cores = parse_stat(Path("/proc/stat").read_text(encoding="ascii"))
    try:
        pressure = parse_pressure(Path("/proc/pressure/cpu").read_text(encoding="ascii"))
    except OSError:
        pressure = None
    try:
        load = float(Path("/proc/loadavg").read_text(encoding="ascii").split()[0])
    except OSError:
        load = None
    return HostSample(clock.now(), cores, load, busy / ticks, steal / ticks, pressure)


def parse_stat(text: str) -> tuple[int, int, int]:
    """Ticks in which cores were busy and stolen, and the number of cores, of /proc/stat.

    Busy is user, nice, system, irq and softirq; a guest's time is counted as user, too.
    """
    lines = text.splitlines()
    user, nice, system, _, _, irq, softirq, steal = (int(field) for field in lines[0].split()[1:9])
    cores = sum(line.startswith("cpu") for line in lines) - 1
    return user + nice + system + irq + softirq, steal, cores


def parse_pressure(text: str) -> float | None:
    """Seconds in which some process waited for a core, of /proc/pressure/cpu."""
    for line in text.splitlines():
        kind, *fields = line.split()
        if kind == "some":
            totals = [field.removeprefix("total=") for field in fields if "total=" in field]
            return int(totals[0]) / 1e6 if totals else None
    return None


def warn_if_loaded(dilation: float, say: Callable[[str], None]) -> None:
    """Say so where other processes use the cores now, before any node is started.

    `dilation` is that of the runs to come: a larger one needs fewer cores.
    """
    try:
        before = read_host()
        time.sleep(LOOK_S)
        after = read_host()
    except (OSError, ValueError):
        return
    if warning := load_warning(before, after, dilation):
        say(warning)


def load_warning(before: HostSample, after: HostSample, dilation: float) -> str:
    """Empty where the host is quiet enough."""
    available = (after.t - before.t) * after.cores
    if available <= 0:
        return ""
    share = (after.busy_s + after.steal_s - before.busy_s - before.steal_s) / available
    if share <= BUSY_SHARE:
        return ""
    load = "" if after.load is None else f", load {after.load:g}"
    return (
        f"warning: other processes use {percent_text(min(share, 1.0), 0)} of this machine's"
        f" {after.cores} cores{load}: step times will be too long (bytes and accuracy are not"
        f" affected); {WAY_OUT.format(f'{enough(dilation, share):g}')}"
    )


def enough(dilation: float, busy_share: float) -> float:
    """The dilation at which nodes that filled the idle machine fit beside the others.

    Where others take all of it, the scheduler still shares it out: half for each.
    """
    return math.ceil(dilation / (1 - min(busy_share, 0.5)) + 1)
