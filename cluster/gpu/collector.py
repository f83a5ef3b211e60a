"""The collector of compose/gpu.yml, beside the nodes: their counters and their GPUs' -> samples, until all have ended.

It asks no Docker engine. The nodes live in this container's process namespace, so that it sees them
in /proc, and there the counters of the network that each one has, as the kernel keeps them; GPUs it
reads through NVML. When it leaves, its process namespace ends, and what is left of a node with it.
"""

from __future__ import annotations

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
from cluster.observe.event_tail import EventTail
from cluster.spec.documents.events import End, Failure
from cluster.spec.experiment import Experiment
from cluster.spec.records import Counters, read_node_counters
from cluster.spec.run_folder import RunFolder

PATIENCE_S = 60.0
"""Until the first node is there: images are in place before anything starts."""
GRACE_S = 5.0
"""For nodes to say what they saw when one of them has failed."""
LEAVING_S = 10.0
"""For nodes to leave by themselves: what is left then ends with this process."""
GONE_S = 1.0
"""Without a sign: a process that becomes another program has no environment for a moment."""
EVERY_S = 0.05


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
        time.sleep(EVERY_S)
    print(f"collector: {outcome}; {run.samples.name} is complete")
    return 0


class Nodes:
    """The workers that are to be seen in /proc."""

    def __init__(self, processes: Path = Path("/proc")) -> None:
        self._processes = processes

    def find(self) -> dict[int, int]:
        """Rank -> its first process."""
        found: dict[int, int] = {}
        numbers = (int(path.name) for path in self._processes.iterdir() if path.name.isdigit())
        for process in sorted(numbers):
            try:
                variables = (self._processes / str(process) / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # another user's, or gone
            rank = next((one[5:] for one in variables if one.startswith(b"RANK=")), b"")
            if rank.isdigit() and process != os.getpid():
                found.setdefault(int(rank), process)
        return found

    def read(self) -> dict[int, Counters]:
        readings = {}
        for rank, process in self.find().items():
            try:
                readings[rank] = read_node_counters(process)
            except OSError:
                continue  # the node is gone
        return readings


def watch(experiment: Experiment, run: RunFolder, plan: Plan, nodes: Nodes) -> str:
    """Until every node of this host has ended, or one has failed; what happened, in a few words."""
    ranks = range(plan.first_rank, plan.first_rank + plan.nodes_here)
    tails = {rank: EventTail(run.events(rank)) for rank in ranks if rank < experiment.nodes}
    ended: set[int] = set()
    last_seen: dict[int, float] = {}
    lost: set[int] = set()
    begun, trouble = time.monotonic(), None
    while len(ended) < len(tails):
        seen = nodes.find()
        # The time of all that follows: a pause of a busy machine is no node's silence.
        now = time.monotonic()
        last_seen |= dict.fromkeys(seen, now)
        for rank, tail in tails.items():
            kinds = {type(event) for event in tail.read()}
            ended |= {rank} if End in kinds else set()
            lost |= {rank} if Failure in kinds else set()
        lost |= {rank for rank, then in last_seen.items() if now - then > GONE_S} - ended
        trouble = trouble or (now if lost else None)
        if (not last_seen and now - begun > PATIENCE_S) or (trouble and now - trouble > GRACE_S):
            return f"no end of node {', '.join(map(str, sorted(set(tails) - ended)))}"
        time.sleep(EVERY_S)
    return "all nodes have ended"


if __name__ == "__main__":
    sys.exit(main())
