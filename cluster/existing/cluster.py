"""A Spark application on an existing cluster, while its runs last.

Only a driver is started here (workloads/launchers/spark_remote.py). The workers count their own
interfaces, and the driver brings what they write into the run folder.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Self

from cluster import PROJECT
from cluster.engine import Cluster, ClusterPlan, CounterSource, EngineError, EngineUnavailable
from cluster.host import interruption
from cluster.host.ownership import scratch_folder
from cluster.observe.cause import FIRST_TO_END
from cluster.spec import clock
from cluster.spec.documents.links import MeasuredLink

START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 10


@dataclass(frozen=True)
class SparkHost:
    """Where a Spark worker runs."""

    host: str
    network: str
    """Identifies the network namespace, which workers of one host share."""


class SparkCluster(Cluster):
    """Entering starts a Spark application, leaving ends it."""

    sources: tuple[CounterSource, ...] = ()

    def __init__(self, plan: ClusterPlan, master: str) -> None:
        self.plan, self.master = plan, master
        self.links: list[MeasuredLink] = []
        self._process: subprocess.Popen[str] | None = None
        self._log = plan.runs[0].log_of("driver")
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "workloads.launchers.spark_remote"]
        self._scratch = tempfile.TemporaryDirectory(
            prefix="spark-", dir=scratch_folder(), ignore_cleanup_errors=True
        )
        environment = {
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            **scratch_variables(self._scratch.name),
            **clock.shared(),  # executors on this machine inherit it
        }
        if self.master.startswith("local"):  # this very machine
            environment.setdefault("PYSPARK_PYTHON", sys.executable)
        try:
            with self._log.open("a") as log, interruption.held_back():
                self._process = subprocess.Popen(
                    [*command, self.master, str(self.plan.nodes)],
                    cwd=PROJECT,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,  # Ctrl-C reaches this process, which then ends it
                )
            self.announcement = _describe(self._first_answer(self._process))
            assert self._process.stdin is not None
            for run in self.plan.runs:
                order = {"run": str(run.path), "data": str(self.plan.data_folder)}
                self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _first_answer(self, process: subprocess.Popen[str]) -> list[SparkHost]:
        """The workers that the driver found on the cluster."""
        assert process.stdout is not None
        timer = threading.Timer(START_TIMEOUT_S, process.kill)
        timer.daemon = True  # an interruption must not wait for it
        began = time.monotonic()  # before the timer starts: an end by the timer comes later
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            waited = time.monotonic() - began
            cause = (
                f"no answer within {START_TIMEOUT_S} s"
                if waited >= START_TIMEOUT_S
                else find_cause(self._log.read_text(errors="replace"))
            )
            raise EngineError(
                f"Spark's driver did not come up on {self.master}: {cause}; see {self._log}"
            )
        answer = json.loads(line)
        if "complaint" in answer:
            raise EngineUnavailable(f"launcher spark: {self.master}: {answer['complaint']}")
        return [SparkHost(worker["host"], worker["network"]) for worker in answer["workers"]]

    def __exit__(self, *exc: object) -> None:
        try:
            if self._process is not None:
                self._end(self._process)
                self._process = None
        finally:
            if self._scratch is not None:
                self._scratch.cleanup()

    def _end(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()  # ends the driver and the application
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # processes that the driver left
            process.wait()
            process.stdout.close()

    def exited(self) -> dict[int, int]:
        """Horovod's driver ends with the first task that fails, and says which.

        Its ranks are our nodes'.
        """
        if self._process is None or self._process.poll() is None:
            return {}
        log = self._log.read_text(errors="replace")
        if first := FIRST_TO_END.search(log):
            return {int(first["rank"]): int(first["code"])}
        code = self._process.returncode
        raise EngineError(
            f"Spark's driver ended with code {code}: {last_line(log)}; see {self._log}"
        )


def scratch_variables(folder: str) -> dict[str, str]:
    """Environment that keeps temporary files of the driver and its local executors in a folder."""
    given = os.environ.get("JAVA_TOOL_OPTIONS", "")
    # Without performance data, which Java always writes to /tmp.
    java = f"{given} -Djava.io.tmpdir={shlex.quote(folder)} -XX:-UsePerfData"
    return {"TMPDIR": folder, "JAVA_TOOL_OPTIONS": java.strip()}


def find_cause(log: str) -> str:
    """The first Java exception in a log; later ones, in Java and Python, only pass it on."""
    found = re.search(r"\borg\.apache\.[\w.$]+(?:Exception|Error): (.+)", log)
    return found[1].strip() if found else last_line(log)


def last_line(log: str) -> str:
    lines = log.strip().splitlines()
    return lines[-1].strip() if lines else "no output"


def _describe(workers: list[SparkHost]) -> str:
    """The workers' hosts, and a warning where workers share one and so its counters."""
    hosts = Counter(worker.host for worker in workers)
    text = f"workers on {', '.join(sorted(hosts))}"
    most = max(Counter(worker.network for worker in workers).values())
    if most > 1:
        text += (
            f"; up to {most} share a host, where each is booked an equal share of its interfaces'"
            " counters, lo and other programs included: use one slot per host for exact bytes"
        )
    return text
