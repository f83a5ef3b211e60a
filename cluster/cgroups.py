"""CPU and memory limits for namespace nodes, by control groups.

Version 1 has a tree of groups for each controller, version 2 one tree for all; a machine may have some
controllers in the one and some in the other. Below our own group stands gradwire-<cluster>, and in it a
group for each node.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.engine import EngineError, EngineUnavailable

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
PATIENCE_S = 10.0
OPTIONS = {"cpu": "cpus", "memory": "total_memory"}
"""Controller -> the option that needs it."""
SWAP = {"swap", "memsw"}
"""Files with these in their names are there only where the kernel has swap to limit."""


def check(*controllers: str) -> str:
    """How these are limited here, all at once; EngineUnavailable where this user may not."""
    found = _parents(controllers)
    for controller in controllers:
        parent = found.get(controller)
        if parent is None or not os.access(parent, os.W_OK):
            raise EngineUnavailable(
                f"{OPTIONS[controller]} needs a writable control group with the {controller}"
                " controller, and there is none: run as root, or use --engine docker"
            )
    if "memory" in controllers:
        parent = found["memory"]
        check_swap(_is_v2(parent) or (parent / "memory.memsw.limit_in_bytes").exists())
    versions = sorted({2 if _is_v2(parent) else 1 for parent in found.values()})
    return f"control groups, version {' and '.join(map(str, versions))}"


def check_swap(can_be_limited: bool) -> None:
    """A node that may use all the swap there is has no limit."""
    if not can_be_limited and len(Path("/proc/swaps").read_text().splitlines()) > 1:
        raise EngineUnavailable(
            "total_memory: this kernel limits memory but not swap, so a limit would not be one:"
            " switch swap off ('swapoff -a'), or start the kernel with swapaccount=1"
        )


@dataclass(frozen=True)
class Groups:
    """The groups of one cluster, until they are removed."""

    tops: tuple[Path, ...]
    joins: dict[int, list[str]]
    """By rank, the files into which a node writes 0 to join its groups."""

    def out_of_memory(self) -> set[int]:
        """Ranks of the nodes of which the kernel has ended a process at its memory limit."""
        starved = set()
        for group in self._of_nodes():
            file = group / ("memory.events" if _is_v2(group) else "memory.oom_control")
            with contextlib.suppress(FileNotFoundError):  # a group for CPUs alone
                counts = dict(line.split() for line in file.read_text().splitlines())
                if int(counts.get("oom_kill", 0)) > 0:
                    starved.add(int(group.name.removeprefix("node")))
        return starved

    def remove(self) -> None:
        """The nodes are gone by now; those that had to be killed, on a busy machine, a little later."""
        deadline = time.monotonic() + PATIENCE_S
        for group in (*self._of_nodes(), *self.tops):
            while group.exists() and not _removed(group) and time.monotonic() < deadline:
                time.sleep(0.01)

    def _of_nodes(self) -> list[Path]:
        return [group for top in self.tops for group in top.glob("node*")]


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:
        return False
    return True


def create(name: str, cpus: Mapping[int, float], memory: Mapping[int, int]) -> Groups:
    """A group for each limited node, in the tree of each controller that limits it."""
    limits = {"cpu": cpus, "memory": memory}
    parents = _parents([controller for controller, by_rank in limits.items() if by_rank])
    tops = {controller: parent / f"gradwire-{name}" for controller, parent in parents.items()}
    groups = Groups(tuple(dict.fromkeys(tops.values())), {})
    try:
        for controller, top in tops.items():
            top.mkdir(exist_ok=True)
            if _is_v2(top):
                (top / "cgroup.subtree_control").write_text(f"+{controller}")
            for rank, value in limits[controller].items():
                group = top / f"node{rank}"
                group.mkdir(exist_ok=True)
                _limit(group, controller, value)
                join = str(group / "cgroup.procs")
                if join not in groups.joins.setdefault(rank, []):
                    groups.joins[rank].append(join)
    except OSError as error:
        groups.remove()
        raise EngineError(f"the nodes' limits could not be set: {error}") from error
    except BaseException:  # interrupted
        groups.remove()
        raise
    return groups


def settings(controller: str, limit: float, *, v2: bool) -> dict[str, str]:
    """File of a group -> what to write into it, in this order. Memory is without swap."""
    if controller == "cpu":
        quota = max(1000, round(limit * PERIOD_US))
        if v2:
            return {"cpu.max": f"{quota} {PERIOD_US}"}
        return {"cpu.cfs_period_us": f"{PERIOD_US}", "cpu.cfs_quota_us": f"{quota}"}
    size = f"{limit:.0f}"
    if v2:
        return {"memory.max": size, "memory.swap.max": "0"}
    return {"memory.limit_in_bytes": size, "memory.memsw.limit_in_bytes": size}


def _limit(group: Path, controller: str, limit: float) -> None:
    for file, text in settings(controller, limit, v2=_is_v2(group)).items():
        if (group / file).exists() or not SWAP & set(file.split(".")):  # no swap here: see check()
            (group / file).write_text(text)


def _is_v2(group: Path) -> bool:
    return (group / "cgroup.subtree_control").exists()


def _parents(controllers: Iterable[str]) -> dict[str, Path]:
    return find_parents(controllers, Path("/proc/self/cgroup").read_text(), ROOT)


def find_parents(controllers: Iterable[str], own_groups: str, root: Path) -> dict[str, Path]:
    """Our own group, as /proc/self/cgroup has it, in the tree of each controller that there is."""
    found, own = {}, None
    for line in own_groups.splitlines():
        number, names, path = line.split(":", 2)
        if number == "0":
            own = root / path.lstrip("/")
        for controller in set(controllers) & set(names.split(",")):
            found[controller] = root / controller / path.lstrip("/")
    in_v2 = [controller for controller in controllers if controller not in found]
    # A process is in one group of version 2: below the nearest that shares all of them out to children.
    while own is not None and not set(in_v2) <= _shared_out(own):
        own = own.parent if own != root else None
    return found | (dict.fromkeys(in_v2, own) if own is not None else {})


def _shared_out(group: Path) -> set[str]:
    try:
        return set((group / "cgroup.subtree_control").read_text().split())
    except OSError:
        return set()
