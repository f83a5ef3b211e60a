"""CPU and memory limits of namespace nodes: Linux control groups, version 1 and 2.

Version 1 has a tree of groups per controller, version 2 one tree for all; a machine may have some
controllers in version 1 and some in version 2. The group of a node is gradwire-<cluster>/node<rank>
below the group of this process.
"""

import contextlib
import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.engine import EngineError, EngineUnavailable
from cluster.host.ownership import Kind, record
from cluster.spec.dilation import cpu_quota

ROOT = Path("/sys/fs/cgroup")
PREFIX = "gradwire-"
PATIENCE_S = 10.0
OPTIONS = {"cpu": "a limit of CPU (cpus, straggler, dilation)", "memory": "total_memory"}
"""Controller -> the options that need it."""
SWAP = {"swap", "memsw"}
"""Parts of names of files that exist only where the kernel can limit swap."""


def check(*controllers: str) -> str:
    """How these controllers can be used together; EngineUnavailable where they cannot."""
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
    """EngineUnavailable where a node could use swap beyond its memory limit."""
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
    """By rank, the cgroup.procs files into which a node writes 0 to join its groups."""

    def out_of_memory(self) -> set[int]:
        """Ranks of the nodes where the kernel has killed a process at the memory limit."""
        killed = set()
        for group in self._of_nodes():
            file = group / ("memory.events" if _is_v2(group) else "memory.oom_control")
            with contextlib.suppress(FileNotFoundError):  # a group of the cpu controller alone
                counts = dict(line.split() for line in file.read_text().splitlines())
                if int(counts.get("oom_kill", 0)) > 0:
                    killed.add(int(group.name.removeprefix("node")))
        return killed

    def limit_cores(self, rank: int, cores: float) -> None:
        """Change a limit of CPU in place; infinite is none. EngineError where it cannot be done."""
        groups = [g for g in self._of_nodes() if g.name == f"node{rank}"]
        files = ("cpu.max", "cpu.cfs_quota_us")
        limited = [group for group in groups if any((group / file).exists() for file in files)]
        try:
            for group in limited:
                _limit(group, "cpu", cores)
        except OSError as error:
            raise EngineError(f"the CPU limit of node{rank} could not be set: {error}") from error
        if not limited:
            raise EngineError(f"node{rank} is in no control group that limits CPU")

    def remove(self) -> None:
        """Remove all groups; waits for nodes that were killed and are still ending."""
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
    """Create a group per limited node, in the tree of each controller that limits it."""
    limits = {"cpu": cpus, "memory": memory}
    parents = _parents([controller for controller, by_rank in limits.items() if by_rank])
    tops = {controller: parent / f"{PREFIX}{name}" for controller, parent in parents.items()}
    groups = Groups(tuple(dict.fromkeys(tops.values())), {})
    try:
        for controller, top in tops.items():
            record(Kind.CONTROL_GROUP, str(top))
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


def remove_leftover(top: Path) -> bool:
    """Remove the groups of a cluster whose owner was killed; whether there were any."""
    is_ours = top.is_relative_to(ROOT) and top.name.startswith(PREFIX) and top.is_dir()
    if is_ours:
        Groups((top,), {}).remove()
    return is_ours and not top.exists()


def settings(controller: str, limit: float, *, v2: bool) -> dict[str, str]:
    """File of a group -> its content, in the order of writing. Memory is without swap.

    An infinite limit of CPU is none.
    """
    if controller == "cpu" and math.isinf(limit):
        return {"cpu.max": "max"} if v2 else {"cpu.cfs_quota_us": "-1"}
    if controller == "cpu":
        quota, period = cpu_quota(limit)
        if v2:
            return {"cpu.max": f"{quota} {period}"}
        return {"cpu.cfs_period_us": f"{period}", "cpu.cfs_quota_us": f"{quota}"}
    size = f"{limit:.0f}"
    if v2:
        return {"memory.max": size, "memory.swap.max": "0"}
    return {"memory.limit_in_bytes": size, "memory.memsw.limit_in_bytes": size}


def _limit(group: Path, controller: str, limit: float) -> None:
    for file, text in settings(controller, limit, v2=_is_v2(group)).items():
        if (group / file).exists() or not SWAP & set(file.split(".")):  # check() allows its lack
            (group / file).write_text(text)


def _is_v2(group: Path) -> bool:
    return (group / "cgroup.subtree_control").exists()


def _parents(controllers: Iterable[str]) -> dict[str, Path]:
    return find_parents(controllers, Path("/proc/self/cgroup").read_text(), ROOT)


def find_parents(controllers: Iterable[str], own_groups: str, root: Path) -> dict[str, Path]:
    """Controller -> the group of this process (/proc/self/cgroup) in that controller's tree."""
    found, own = {}, None
    for line in own_groups.splitlines():
        number, names, path = line.split(":", 2)
        if number == "0":
            own = root / path.lstrip("/")
        for controller in set(controllers) & set(names.split(",")):
            found[controller] = root / controller / path.lstrip("/")
    in_v2 = [controller for controller in controllers if controller not in found]
    # Version 2: a process is in one group, so take the nearest that delegates all controllers.
    while own is not None and not set(in_v2) <= _delegated(own):
        own = own.parent if own != root else None
    return found | (dict.fromkeys(in_v2, own) if own is not None else {})


def _delegated(group: Path) -> set[str]:
    """Controllers that a group of version 2 makes available to its children."""
    try:
        return set((group / "cgroup.subtree_control").read_text().split())
    except OSError:
        return set()
