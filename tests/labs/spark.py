"""A standalone Spark cluster and measures on its login host, in fresh namespaces.

    unshare --net ... python -m tests.labs.spark HOSTS FOLDER PLAN

The arguments are those of tests.labs.hosts.Plan. Each host has one slot; the master is where people
log in. The master and the workers are Spark's own programs.
"""

from __future__ import annotations

import sys

from pyspark.find_spark_home import _find_spark_home

from cluster.namespaces import network
from tests.labs.hosts import Hosts, Plan

PORT = 7077


def main(plan: Plan) -> None:
    with Hosts(plan.hosts + 1, plan.folder) as hosts:
        start(hosts, hosts.login, "master.Master", "--port", str(PORT))
        hosts.await_port(hosts.login, PORT)
        url = f"spark://{network.address(hosts.login)}:{PORT}"
        for rank in range(plan.hosts):
            worker = ("worker.Worker", url, "--cores", "1", "--memory", "1g")
            start(hosts, rank, *worker, "--work-dir", str(plan.folder / f"work{rank}"))
        variables = {"PYSPARK_PYTHON": sys.executable}
        hosts.measure(plan, ["--launcher", "spark", "--spark-master", url], variables)


def start(hosts: Hosts, rank: int, program: str, *options: str) -> None:
    home = _find_spark_home()
    command = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{program}"]
    hosts.start(
        rank,
        f"{program}-{rank}",
        [*command, "--host", network.address(rank), *options],
        SPARK_HOME=home,
        SPARK_DAEMON_MEMORY="128m",
        SPARK_LOCAL_DIRS=str(hosts.folder),
    )


if __name__ == "__main__":
    main(Plan.parse(*sys.argv[1:]))
