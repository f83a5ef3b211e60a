"""./measure.sh --doctor: what this machine can do, and what to install."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from importlib import metadata

from cluster import cpu_limits, docker_engine, netns_engine
from cluster.engine import EngineUnavailable


def report() -> int:
    """Prints a line per ability; 0 when at least one engine works."""
    engines = [
        _line("engine docker", lambda: docker_engine.check() or docker_engine.describe()),
        _line("engine netns", lambda: netns_engine.check() or _privileges()),
    ]
    _line("CPU limits (netns)", lambda: cpu_limits.check() or "control groups are writable")
    _line("torch", lambda: metadata.version("torch"))
    _line("cores", lambda: str(os.cpu_count()))
    _line("memory", _memory)
    _line("free disk", lambda: f"{shutil.disk_usage('.').free / 1e9:.0f} GB here")
    if not any(engines):
        print("no engine works here: follow one of the hints above", file=sys.stderr)
    return 0 if any(engines) else 1


def _line(name: str, probe: Callable[[], str | None]) -> bool:
    try:
        print(f"  ok  {name:<20} {probe()}")
    except (EngineUnavailable, metadata.PackageNotFoundError) as error:
        print(f"  --  {name:<20} {error}")
        return False
    return True


def _privileges() -> str:
    return "as root" if os.geteuid() == 0 else "unprivileged, in a user namespace"


def _memory() -> str:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{total / 2**30:.1f} GiB"
