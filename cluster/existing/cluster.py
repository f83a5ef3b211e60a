"""Hosts of an existing cluster, while their runs last.

Only a driver is started here (workloads/hosts/driver.py). The workers count their own interfaces,
and the driver brings what they write into the run folder.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from cluster import PROJECT
from cluster.engine import Cluster, ClusterPlan, CounterSource, EngineError, EngineUnavailable
from cluster.existing.launchers import HOST_LAUNCHERS, last_line
from cluster.host import interruption
from cluster.host.ownership import scratch_folder
from cluster.observe.cause import FIRST_TO_END
from cluster.observe.node_watch import RunFailed
from cluster.spec import clock
from cluster.spec.documents.links import MeasuredLink
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.hosts import HostOptions

START_TIMEOUT_S = 180
"""Beside the patience that a person has with the hosts."""
STOP_TIMEOUT_S = 10
DRIVER = (sys.executable, "-m", "workloads.hosts")


@dataclass(frozen=True)
class FoundHost:
    """Where a worker runs."""

    host: str
    network: str
    """Identifies the network namespace, which workers of one host share."""


class HostsCluster(Cluster):
    """Entering starts a launcher's driver, which finds the hosts; leaving ends it."""

    sources: tuple[CounterSource, ...] = ()

    def __init__(
        self, plan: ClusterPlan, launcher: str, options: HostOptions, say: Callable[[str], None]
    ) -> None:
        self.plan, self.launcher, self.options, self._say = plan, launcher, options, say
        self.links: list[MeasuredLink] = []
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._log = plan.runs[0].log_of("driver")
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._lost: str | None = None
        self._lost_runs: dict[str, str] = {}
        self._watched = ""

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(
            prefix="hosts-", dir=scratch_folder(), ignore_cleanup_errors=True
        )
        row = HOST_LAUNCHERS[self.launcher]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), **clock.shared()}
        environment |= row.variables(self._scratch.name, self.options)
        request = {
            "nodes": self.plan.nodes,
            "spread": self.plan.spread,
            "options": self.options.to_json(),
            "runs": [str(run.path) for run in self.plan.runs],
            "data": str(self.plan.data_folder),
            "log": str(self._log),
        }
        try:
            with self._log.open("a") as log, interruption.held_back():
                self._process = subprocess.Popen(
                    [*DRIVER, self.launcher, json.dumps(request)],
                    cwd=PROJECT,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,  # Ctrl-C reaches this process, which then ends it
                )
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
            self.announcement = _describe(self._await_hosts(), self.plan)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in process.stdout:
                self._answers.put(json.loads(line))
        self._answers.put(None)

    def _await_hosts(self) -> list[FoundHost]:
        """The hosts that the driver found."""
        while True:
            patience_s = self.options.patience_s + START_TIMEOUT_S
            try:
                answer = self._answers.get(timeout=patience_s)
            except queue.Empty:
                raise self._no_driver(f"no answer within {patience_s:g} s") from None
            if answer is None:
                found = HOST_LAUNCHERS[self.launcher].find_cause
                raise self._no_driver(found(self._log.read_text(errors="replace")))
            if "complaint" in answer:
                raise EngineUnavailable(f"launcher {self.launcher}: {answer['complaint']}")
            if "workers" in answer:
                return [FoundHost(found["host"], found["network"]) for found in answer["workers"]]
            self._say(answer["notice"])

    def _no_driver(self, cause: str) -> EngineError:
        return EngineError(
            f"launcher {self.launcher}: its driver did not come up: {cause}; see {self._log}"
        )

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
        process.stdin.close()  # ends the driver, and what it started on the hosts
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # processes that the driver left
            process.wait()
            process.stdout.close()

    def watch(self, run: RunFolder) -> None:
        self._watched = run.name

    def exited(self) -> dict[int, int]:
        """Horovod's driver ends with the first task that fails, and says which.

        Its ranks are our nodes'.
        """
        while not self._answers.empty():
            answer = self._answers.get_nowait() or {}
            if "run" in answer:
                self._lost_runs[answer["run"]] = answer["lost"]
            else:
                self._lost = answer.get("lost", self._lost)
            if "notice" in answer:
                self._say(answer["notice"])
        if self._lost is not None:
            raise EngineError(f"{self._lost}; see {self._log.parent}")
        if why := self._lost_runs.get(self._watched):
            raise RunFailed(f"{why}; see {self._log.parent}")
        if self._process is None or self._process.poll() is None:
            return {}
        log = self._log.read_text(errors="replace")
        if first := FIRST_TO_END.search(log):
            return {int(first["rank"]): int(first["code"])}
        code = self._process.returncode
        raise EngineError(
            f"the driver of launcher {self.launcher} ended with code {code}: {last_line(log)};"
            f" see {self._log}"
        )


def _describe(workers: list[FoundHost], plan: ClusterPlan) -> str:
    """The workers' hosts, and a warning where workers share one and so its counters."""
    hosts = Counter(worker.host for worker in workers)
    if plan.spread:
        at_once = f", {len(workers)} at a time" if len(workers) < len(plan.runs) else ""
        return f"{len(plan.runs)} runs on {', '.join(sorted(hosts))}{at_once}"
    text = f"workers on {', '.join(sorted(hosts))}"
    most = max(Counter(worker.network for worker in workers).values())
    if most > 1:
        text += (
            f"; up to {most} share a host, where each is booked an equal share of its interfaces'"
            " counters, lo and other programs included: use one slot per host for exact bytes"
        )
    return text
