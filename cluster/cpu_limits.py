"""CPU limits for namespace nodes, by control groups (version 2, or version 1's cpu controller)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from cluster.engine import EngineUnavailable

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


def check() -> str:
    """How CPUs are limited here; EngineUnavailable where this user may not."""
    parent = _parent()
    if parent is None or not os.access(parent, os.W_OK):
        raise EngineUnavailable(
            "cpus needs a writable control group with the cpu controller, and there is none:"
            " run as root, or use --engine docker"
        )
    return f"control groups, version {2 if _is_v2(parent) else 1}"


def create(name: str, workers: int, cpus: float) -> list[str]:
    """A group per node; returns the files into which a node writes 0 to join its group."""
    parent = _parent()
    assert parent is not None
    quota = max(1000, round(cpus * PERIOD_US))
    top = parent / f"gradwire-{name}"
    top.mkdir()
    if _is_v2(parent):
        (top / "cgroup.subtree_control").write_text("+cpu")
    joins = []
    for rank in range(workers):
        group = top / f"node{rank}"
        group.mkdir()
        if _is_v2(parent):
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        joins.append(str(group / "cgroup.procs"))
    return joins


def remove(name: str) -> None:
    """Empty groups only; the nodes are gone by now."""
    parent = _parent()
    if parent is None:
        return
    top = parent / f"gradwire-{name}"
    for group in [*top.glob("node*"), top]:
        with contextlib.suppress(OSError):
            group.rmdir()


def _is_v2(parent: Path) -> bool:
    return (parent / "cgroup.subtree_control").exists()


def _parent() -> Path | None:
    """Our own group, as /proc/self/cgroup has it, in the hierarchy that limits CPUs."""
    groups = Path("/proc/self/cgroup").read_text().splitlines()
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return ROOT / "cpu" / path.lstrip("/")
    own = next((line for line in groups if line.startswith("0::")), None)
    if own is None:
        return None
    group = ROOT / own[3:].lstrip("/")
    while "cpu" not in _controllers(group):  # the nearest that shares its CPU out to children
        if group == ROOT:
            return None
        group = group.parent
    return group


def _controllers(group: Path) -> list[str]:
    try:
        return (group / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []
