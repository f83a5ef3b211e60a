"""The collector of compose/gpu.yml: counters of all nodes and GPUs -> samples, while nodes run.

It does not ask Docker. The nodes are in this container's process namespace, so that it finds them
in /proc, and there the counters of each node's network; it reads GPUs through NVML. When it ends,
its process namespace ends, and with it any process that is left of a node.
"""

import os
import sys
import time
from pathlib import Path

from cluster.engine import CounterSource
from cluster.gpu.namespace_holder import others
from cluster.gpu.nvml import open_nvml
from cluster.gpu.samples import GpuCollector, gpus_by_node
from cluster.gpu.session import RUNS, Plan, current_session, planned_run, read_plan
from cluster.observe.collector import Collector
from cluster.observe.node_watch import POLL_S, NodeWatch, RunFailed
from cluster.spec.documents.event_reader import most_bytes
from cluster.spec.documents.records import Counters, read_all_counters
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment

PATIENCE_S = 60.0
"""Until the first node starts; images exist before anything starts."""
GRACE_S = 5.0
"""For nodes to report when one of them has failed."""
LEAVING_S = 10.0
"""For nodes to end by themselves; the rest is ended with this process."""
GONE_S = 1.0
"""A process that execs another program has no environment in /proc for a moment."""


def main() -> int:
    session = current_session(RUNS)
    plan, run = read_plan(session), planned_run(session)
    assert plan is not None
    experiment = run.read_experiment()
    nodes = Nodes()
    sources = (CounterSource("kernel", 10, nodes.read),)
    counters = Collector(run.samples, sources, experiment.interval, experiment.node_names)
    gpus = gpus_by_node(experiment, plan.gpu_ids, plan.first_rank)
    with counters, GpuCollector(run.gpu_samples, open_nvml(), gpus, experiment.interval):
        outcome = watch(experiment, run, plan, nodes)
    deadline = time.monotonic() + LEAVING_S
    while others() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    print(f"collector: {outcome}; {run.samples.name} is complete")
    return 0


class Nodes:
    """The workers found in /proc, by the RANK in their environment."""

    def __init__(self, processes: Path = Path("/proc")) -> None:
        self._processes = processes
        self._last_seen: dict[int, float] = {}

    def find(self) -> dict[int, int]:
        """Rank -> its first process."""
        found: dict[int, int] = {}
        numbers = (int(path.name) for path in self._processes.iterdir() if path.name.isdigit())
        for process in sorted(numbers):
            try:
                variables = (self._processes / str(process) / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # another user's process, or ended
            ranks = [variable[5:] for variable in variables if variable.startswith(b"RANK=")]
            if ranks and ranks[0].isdigit() and process != os.getpid():
                found.setdefault(int(ranks[0]), process)
        return found

    def read(self) -> dict[int, Counters]:
        return read_all_counters(self.find())

    def missing(self) -> tuple[set[int], bool]:
        """Ranks that were seen before and not for GONE_S, and whether any was ever seen."""
        found = self.find()
        now = time.monotonic()  # after the search: a stall of this machine is no node's absence
        self._last_seen |= dict.fromkeys(found, now)
        gone = {rank for rank, seen in self._last_seen.items() if now - seen > GONE_S}
        return gone, bool(self._last_seen)


def watch(experiment: Experiment, run: RunFolder, plan: Plan, nodes: Nodes) -> str:
    """Wait until every node of this host has ended, or one has failed; the outcome in words."""
    ranks = range(plan.first_rank, plan.first_rank + plan.nodes_here)
    files = {rank: run.events(rank) for rank in ranks if rank < experiment.nodes}
    watched = NodeWatch(files, most_bytes(experiment))
    begun = time.monotonic()
    failed_at: float | None = None
    while True:
        missing, any_started = nodes.missing()
        try:
            watched.read()
        except RunFailed as failure:
            return str(failure)
        if not watched.remaining:
            return "all nodes have ended"
        now = time.monotonic()
        if failed_at is None and (watched.failures or missing - watched.ended):
            failed_at = now
        never_started = not any_started and now - begun > PATIENCE_S
        if never_started or (failed_at is not None and now - failed_at > GRACE_S):
            return f"no end of node {', '.join(map(str, watched.remaining))}"
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main())
