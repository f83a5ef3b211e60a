"""Engine `netns`: nodes are Linux network namespaces; no daemon, no image, no root.

cluster/namespaces/cluster.py starts one supervisor process in fresh namespaces; all nodes are its
children. When it ends, for whatever reason, the kernel removes every namespace, veth pair and
process with it; only control groups, where CPU or memory is limited, must be removed.
"""

import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from cluster import environment
from cluster.engine import (
    ClusterPlan,
    Engine,
    EngineUnavailable,
    check_limits,
    largest_launcher,
    needs_containers,
)
from cluster.host import cgroups, packages
from cluster.links import kernel_support
from cluster.namespaces.cluster import (
    NetnsCluster,
    find_tool,
    first_user,
    has_sys_admin,
    unshare_command,
)
from cluster.spec.documents.codec import Options
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.hosts import HostOptions
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.links import Link


def check(experiments: Sequence[Experiment] = (), hosts: HostOptions | None = None) -> str:
    """How namespaces work here; EngineUnavailable, with the way out, where they do not."""
    if option := needs_containers(experiments):
        raise SpecError(f"{option} needs containers: use --engine docker")
    if not sys.platform.startswith("linux"):
        raise EngineUnavailable("engine netns needs Linux; use --engine docker here")
    for tool, package in (("unshare", "util-linux"), ("ip", "iproute2"), ("tc", "iproute2")):
        if find_tool(tool) is None:
            raise EngineUnavailable(
                f"engine netns needs the command '{tool}': install the package {package}"
            )
    trial = subprocess.run([*unshare_command(), "true"], capture_output=True, text=True)
    if trial.returncode != 0:
        raise EngineUnavailable(
            f"engine netns needs user namespaces, and this machine forbids them"
            f" ({trial.stderr.strip()}): allow them with 'sysctl -w"
            f" kernel.unprivileged_userns_clone=1' or 'sysctl -w"
            f" kernel.apparmor_restrict_unprivileged_userns=0', run as root, or use --engine docker"
        )
    if importlib.util.find_spec("torch") is None:
        raise EngineUnavailable(
            f"engine netns needs torch in this Python ({sys.executable}): start with ./measure.sh,"
            " which installs it, or use --engine docker"
        )
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = check_limits(experiments, os.cpu_count() or 1, machine_bytes)
    limited = zip(("cpu", "memory"), limits, strict=True)
    cgroups.check(*(controller for controller, limit in limited if limit is not None))
    return "as root" if has_sys_admin() else "unprivileged, in a user namespace"


def limited_cores() -> int:
    cgroups.check("cpu")
    return len(os.sched_getaffinity(0))


def open_engine(
    experiments: Sequence[Experiment],
    say: Callable[[str], None],
    hosts: HostOptions | None = None,
) -> Engine:
    """The engine, with this Python's packages that the experiments' launchers need."""
    launcher = largest_launcher(experiments)
    if LAUNCHERS[launcher].packages:
        environment.need(launcher, say)
    files = dict.fromkeys(e.requirements for e in experiments if e.requirements is not None)
    return NetnsEngine({file: packages.ensure(Path(file), say) for file in files})


@functools.cache
def link_modules() -> set[str]:
    return kernel_support.try_modules(unshare_command())


class NetnsEngine(Engine):
    """See cluster.engine.Engine. Namespaces need no files and leave nothing behind."""

    def __init__(self, packages: Mapping[str, Path] | None = None) -> None:
        """`packages` is where those of a requirements file are."""
        self._packages = dict(packages or {})

    @property
    def about(self) -> Options:
        return {
            "name": "netns",
            "privileged": has_sys_admin(),
            "cpu_limits": _limits_by("cpu"),
            "memory_limits": _limits_by("memory"),
        }

    def check_links(self, links: Iterable[Link], paths: Iterable[Link] = ()) -> None:
        kernel_support.check(links, link_modules(), paths)

    def node_user(self, rank: int) -> int | None:
        first = first_user()
        return None if first is None else first + rank

    def cluster(self, plan: ClusterPlan) -> NetnsCluster:
        paths = plan.paths.values()
        is_delayed = any(path.delay_s for path in paths)
        delay_line = is_delayed and kernel_support.needs_delay_line(paths, link_modules())
        return NetnsCluster(plan, self._packages.get(plan.requirements or ""), delay_line)


def _limits_by(controller: str) -> str | None:
    try:
        return cgroups.check(controller)
    except EngineUnavailable:
        return None
