"""A Ray cluster and a measure on its head, in fresh namespaces.

    unshare --net ... python -m tests.labs.ray HOSTS FOLDER PLAN

The arguments are those of tests.labs.hosts.Plan. A raylet is in each namespace; the head, where
people log in, has no CPU to give.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from cluster.namespaces import network
from tests.labs.hosts import Hosts, Plan

PORT = 6379
STARTED = "Ray runtime started"
RAY = str(Path(sys.executable).with_name("ray"))
OWN_RESOURCES = 'mount -t tmpfs own "$(readlink -f "$0")/runtime_resources" && exec "$@"'
"""Hosts of this lab share one file system, which real ones do not: without a mount of its own, one
host's Ray unpacks the code again where another's is running it."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}


def main(plan: Plan) -> None:
    scratch = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # its sockets need a short path
    try:
        with Hosts(plan.hosts + 1, plan.folder) as hosts:
            head = ["--head", f"--port={PORT}", f"--temp-dir={scratch}", "--num-cpus=0"]
            start(hosts, hosts.login, [*head, "--include-dashboard=false"], [])
            hosts.await_port(hosts.login, PORT)
            address = f"{network.address(hosts.login)}:{PORT}"
            hosts.await_word(f"ray-{hosts.login}", STARTED)
            session = f"{scratch}/session_latest"
            own = ["unshare", "--mount", "sh", "-c", OWN_RESOURCES, session]
            for rank in range(plan.hosts):
                start(hosts, rank, [f"--address={address}", "--num-cpus=1"], own)
                # One after the other: on a busy machine, Ray's head answers several too late.
                hosts.await_word(f"ray-{rank}", STARTED)
            hosts.measure(plan, ["--launcher", "ray", "--ray-address", address], QUIET)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def start(hosts: Hosts, rank: int, options: list[str], before: list[str]) -> None:
    address = f"--node-ip-address={network.address(rank)}"
    command = [RAY, "start", "--block", "--disable-usage-stats", address, *options]
    hosts.start(
        rank,
        f"ray-{rank}",
        [*before, *command, "--object-store-memory=100000000", "--include-log-monitor=false"],
        **QUIET,
    )


if __name__ == "__main__":
    main(Plan.parse(*sys.argv[1:]))
