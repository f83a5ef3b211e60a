"""./measure.sh --doctor: what this machine can do, and what to install."""

import os
import shutil
import sys
from collections.abc import Callable
from importlib import metadata

from cluster import environment
from cluster.containers import checks
from cluster.engine import AUTO, ENGINES, EngineUnavailable, engine_names
from cluster.existing.launchers import HOST_LAUNCHERS
from cluster.host import cgroups
from cluster.links import kernel_support
from cluster.namespaces.engine import link_modules
from cluster.spec.hosts import HostOptions


def report() -> int:
    """Prints a line per ability; 0 when at least one engine works."""
    engines = [_line(f"engine {n}", ENGINES[n].load().check) for n in engine_names() if n != AUTO]
    _line("GPUs (docker)", _gpus)
    _line("CPU limits (netns)", lambda: cgroups.check("cpu"))
    _line("memory limits (netns)", lambda: cgroups.check("memory"))
    _line("links", lambda: kernel_support.describe(link_modules()))
    _line("torch", lambda: metadata.version("torch"))
    _line("horovod (netns)", lambda: environment.readiness("horovod"))
    _line("spark (--spark-master)", lambda: environment.readiness("spark"))
    _line("slurm (--launcher)", lambda: HOST_LAUNCHERS["slurm"].check(HostOptions()))
    _line("ray (--launcher)", lambda: environment.readiness("ray"))
    _line("cores", lambda: str(os.cpu_count()))
    _line("memory", _memory)
    _line("free disk", lambda: f"{shutil.disk_usage('.').free / 1e9:.0f} GB here")
    if not any(engines):
        print("no engine works here: follow one of the hints above", file=sys.stderr)
    return 0 if any(engines) else 1


def _line(name: str, probe: Callable[[], str]) -> bool:
    try:
        print(f"  ok  {name:<22} {probe()}")
    except (EngineUnavailable, metadata.PackageNotFoundError) as error:
        print(f"  --  {name:<22} {error}")
        return False
    return True


def _gpus() -> str:
    ENGINES["docker"].load().check()
    return checks.check_gpus(0)


def _memory() -> str:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{total / 2**30:.1f} GiB"
