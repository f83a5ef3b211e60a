"""A standalone Spark cluster that is not gradwire's, and a measure beside it, in fresh namespaces.

    unshare --net ... python -m tests.spark_lab WORKERS LOGS FLAGS...

Hosts are network namespaces on one switch: the Spark workers, then the master, then the host of
./measure.sh. The master and the workers are Spark's own programs. Returns the measure's exit code.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home

from cluster.namespaces import network
from cluster.spec.documents.run_folder import node_name
from tests.measuring import COMMAND, PROJECT

PORT = 7077
TIMEOUT_S = 300


def main(workers: int, logs: Path, flags: list[str]) -> int:
    network.write_hosts_file(workers + 2)
    hosts = network.create_namespaces(workers + 2)
    network.build_network(workers + 2, hosts)
    url = f"spark://{network.address(workers)}:{PORT}"
    daemons = []
    try:
        master = ("master.Master", "--port", str(PORT))
        daemons.append(spark(hosts, workers, logs, *master))
        await_port(network.address(workers), hosts[-1])
        for rank in range(workers):
            worker = ("worker.Worker", url, "--cores", "1", "--memory", "1g")
            folder = ("--work-dir", str(logs / f"work{rank}"))
            daemons.append(spark(hosts, rank, logs, *worker, *folder))
        return subprocess.run(
            [*COMMAND, "--launcher", "spark", "--spark-master", url, *flags],
            cwd=PROJECT,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            **on_host(hosts, workers + 1),
        ).returncode
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.wait()


def spark(hosts: list[int], rank: int, logs: Path, program: str, *options: str) -> Any:
    """Start a Spark daemon on a host."""
    home = _find_spark_home()
    command = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{program}"]
    command += ["--host", network.address(rank), *options]
    environment = {**os.environ, "SPARK_HOME": home, "SPARK_DAEMON_MEMORY": "128m"}
    environment["SPARK_LOCAL_DIRS"] = str(logs)
    with (logs / f"{program}-{rank}.log").open("w") as log:
        return subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, **on_host(hosts, rank)
        )


def on_host(hosts: list[int], rank: int) -> dict[str, Any]:
    """Popen arguments that start a program on a host, with the host's name."""

    def enter() -> None:
        network.enter(hosts[rank])
        network.check(network.libc.unshare(network.CLONE_NEWUTS), "unshare")
        socket.sethostname(node_name(rank))

    return {"preexec_fn": enter, "pass_fds": (hosts[rank],)}


def await_port(address: str, namespace: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    with network.inside(namespace):
        while True:
            try:
                socket.create_connection((address, PORT), timeout=1).close()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
