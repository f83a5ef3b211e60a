"""The table of host launchers: how each looks from the machine of ./measure.sh.

The other side of each is its adapter in workloads/hosts.
"""

import os
import re
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from cluster.engine import EngineUnavailable
from cluster.spec.errors import SpecError
from cluster.spec.hosts import HostOptions
from cluster.spec.slurm_job import PROGRAMS, check_image

TRIES, TRY_TIMEOUT_S, PAUSE_S = 3, 5.0, 2.0
SPARK_FORMS = "spark://HOST:7077, yarn, k8s://https://HOST:PORT or local-cluster[N,CORES,MB]"
SPARK_PATTERN = r"spark://[^:/]+:\d+(,[^:/]+:\d+)*|yarn|k8s://.+|local-cluster\[\d+,\d+,\d+\]"


@dataclass(frozen=True, kw_only=True)
class HostLauncherRow:
    """A host launcher, as the command line sees it."""

    options: tuple[str, ...]
    """Fields of HostOptions that it takes, beside the patience."""
    patience_s: float
    """How long it waits for hosts by default."""
    check: Callable[[HostOptions], str]
    """How it reaches its cluster; EngineUnavailable where it cannot."""
    needs: str | None = None
    """What environment.need() prepares in this Python for its driver."""
    variables: Callable[[str, HostOptions], dict[str, str]] = lambda folder, options: {}
    """The driver's own environment; its temporary files may go to a folder."""
    find_cause: Callable[[str], str]
    """Why the driver ended early, from its log."""


def check_spark(options: HostOptions) -> str:
    master = options.spark_master
    if master is None or not re.fullmatch(SPARK_PATTERN, master):
        raise SpecError(f"spark_master {master!r} is no cluster; give {SPARK_FORMS}")
    if master.startswith("spark://"):
        addresses = [entry.rsplit(":", 1) for entry in master.removeprefix("spark://").split(",")]
        _connect(
            [(host, int(port)) for host, port in addresses],
            f"launcher spark: no master answers at {master}",
        )
    return master


def check_slurm(options: HostOptions) -> str:
    if options.image is not None:
        check_image(options.image)
    for program in PROGRAMS:
        if shutil.which(program) is None:
            raise EngineUnavailable(
                f"launcher slurm: there is no {program} on this machine: start ./measure.sh on a"
                " login host of the Slurm cluster (on Debian, package slurm-client has it)"
            )
    return "Slurm"


def check_ray(options: HostOptions) -> str:
    """The driver finds the cluster of this machine by itself."""
    if options.ray_address is None:
        return "the Ray cluster of this machine"
    found = re.fullmatch(r"([^:/]+|\[.+\]):(\d{1,5})", options.ray_address)
    if found is None:
        raise SpecError(
            f"ray_address {options.ray_address!r} is none: give HOST:PORT of the cluster's head, on"
            " a host of the cluster (ray:// clients are too far from it)"
        )
    _connect(
        [(found[1].strip("[]"), int(found[2]))],
        f"launcher ray: no head answers at {options.ray_address} ('ray start --head' begins one)",
    )
    return options.ray_address


def ray_variables(folder: str, options: HostOptions) -> dict[str, str]:
    return {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}


def _connect(addresses: list[tuple[str, int]], problem: str) -> None:
    """EngineUnavailable where nobody accepts a connection; retries while one is starting."""
    began = time.monotonic()
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE_S)
        for host, port in addresses:
            try:
                socket.create_connection((host, port), timeout=TRY_TIMEOUT_S).close()
            except OSError as error:
                reason = error.strerror or str(error)
            else:
                return
    raise EngineUnavailable(
        f"{problem}: {TRIES} connections tried within {time.monotonic() - began:.0f} s ({reason})"
    )


def spark_variables(folder: str, options: HostOptions) -> dict[str, str]:
    """Keeps temporary files of the driver and its local executors in the folder."""
    given = os.environ.get("JAVA_TOOL_OPTIONS", "")
    # Without performance data, which Java always writes to /tmp.
    java = f"{given} -Djava.io.tmpdir={shlex.quote(folder)} -XX:-UsePerfData"
    own = {"TMPDIR": folder, "JAVA_TOOL_OPTIONS": java.strip()}
    if str(options.spark_master).startswith("local"):  # this very machine
        own["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return own


def java_cause(log: str) -> str:
    """The first Java exception in a log; later ones, in Java and Python, only pass it on."""
    found = re.search(r"\borg\.apache\.[\w.$]+(?:Exception|Error): (.+)", log)
    return found[1].strip() if found else last_line(log)


def last_line(log: str) -> str:
    lines = log.strip().splitlines()
    return lines[-1].strip() if lines else "no output"


HOST_LAUNCHERS = {
    "spark": HostLauncherRow(
        options=("spark_master",),
        patience_s=60,
        check=check_spark,
        needs="spark",
        variables=spark_variables,
        find_cause=java_cause,
    ),
    "slurm": HostLauncherRow(
        options=("slurm_partition", "slurm_account", "slurm_time", "image", "host_python"),
        patience_s=600,
        check=check_slurm,
        find_cause=last_line,
    ),
    "ray": HostLauncherRow(
        options=("ray_address",),
        patience_s=60,
        check=check_ray,
        needs="ray",
        variables=ray_variables,
        find_cause=last_line,
    ),
}
