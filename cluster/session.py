"""A session: the runs of one ./measure.sh call, grouped by the cluster they share."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster.engine import (
    Cluster,
    ClusterPlan,
    Engine,
    EngineError,
    EngineUnavailable,
    LinksNotTrue,
)
from cluster.gpu.nvml import open_nvml
from cluster.gpu.samples import GpuCollector, gpus_by_node
from cluster.links.findings import burst_warning, verdict, with_statistics
from cluster.observe.collector import Collector
from cluster.observe.node_watch import POLL_S, NodeWatch
from cluster.observe.progress import Progress
from cluster.spec.documents.environment import Environment
from cluster.spec.documents.events import Failure, Hello, Notice
from cluster.spec.documents.links import Links, LinkStatistics, MeasuredLink
from cluster.spec.documents.summary import Summary
from cluster.spec.experiment import Experiment
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.quantities import write_memory
from cluster.spec.run_folder import RunFolder, write_json
from cluster.spec.strategies import STRATEGIES

GRACE_S = 3.0
"""After one node failed, how long the others have to say what they saw."""

Summarise = Callable[[RunFolder, Experiment, str, str | None], Summary]
Run = tuple[Experiment, RunFolder]


class RunFailed(Exception):
    """A run ended badly; the message names the node and the cause."""


@dataclass(frozen=True)
class Session:
    """What all runs of a session have in common."""

    folder: Path
    data_folder: Path
    environment: Environment
    engine: Engine
    summarise: Summarise
    progress: Progress
    warned: list[str] = field(default_factory=list)

    def conduct(self, experiments: Sequence[Experiment]) -> list[Summary]:
        """All runs; one that fails does not stop the others."""
        runs = [(e, self._create(index, e)) for index, e in enumerate(experiments, 1)]
        summaries: list[Summary] = []
        for _, group in itertools.groupby(runs, key=lambda run: run[0].cluster):
            remaining = list(group)
            while remaining:
                try:
                    done = self._on_one_cluster(remaining)
                except EngineUnavailable as error:
                    if not summaries:
                        raise
                    done = [self._close(*remaining[0], "failed", str(error))]
                summaries += done
                remaining = remaining[len(done) :]
        return summaries

    def _create(self, index: int, experiment: Experiment) -> RunFolder:
        name = f"{index:03d}-{experiment.label}-s{experiment.seed}"
        folder = RunFolder(self.folder / name).create()
        write_json(folder.environment, self.environment)
        self.engine.prepare_run(experiment, folder, self.data_folder)
        return folder

    def _on_one_cluster(self, runs: list[Run]) -> list[Summary]:
        """Raise one cluster and do the runs on it, until all are done or one has failed."""
        first, folder = runs[0]
        plan = ClusterPlan(
            name=f"{self.folder.name}-{folder.name[:3]}",
            nodes=first.nodes,
            auxiliary_services=first.auxiliary_services,
            cpus=first.cpus_by_rank,
            memory_bytes=first.memory_per_node,
            links=first.links,
            runs=tuple(folder for _, folder in runs),
            data_folder=self.data_folder,
            imports=_slow_imports(experiment for experiment, _ in runs),
        )
        summaries: list[Summary] = []
        current: Run = runs[0]
        try:
            self.progress.starting(first)
            with self.engine.cluster(plan) as cluster:
                if cluster.announcement:
                    self.progress.say(cluster.announcement)
                if cluster.links:
                    self.progress.say(verdict(cluster.links))
                for current in runs:
                    summaries.append(self._one_run(*current, cluster))
        except (RunFailed, EngineError) as error:
            if isinstance(error, LinksNotTrue):
                record_links(current[1], error.links)
            summaries.append(self._close(*current, "failed", str(error)))
        except KeyboardInterrupt:
            self._close(*current, "interrupted", "interrupted by the user")
            raise
        return summaries

    def _one_run(self, experiment: Experiment, folder: RunFolder, cluster: Cluster) -> Summary:
        collector = Collector(
            folder.samples, cluster.sources, experiment.interval, experiment.node_names
        )
        record_links(folder, cluster.links)
        before = cluster.link_statistics()
        gpus = GpuCollector(
            folder.gpu_samples,
            open_nvml() if experiment.gpu else None,
            gpus_by_node(experiment, range(max(experiment.nodes, experiment.gpu))),
            experiment.interval,
        )
        with collector, gpus:
            self.progress.begin(experiment, folder, collector)
            write_json(folder.spec, experiment.to_json())
            watch(experiment, folder, cluster, self.progress, self._warn_of_burst)
        record_links(folder, cluster.links, before, cluster.link_statistics())
        if folder.samples.name in collector.failures:
            raise RunFailed(f"samples are incomplete: {collector.failures[folder.samples.name]}")
        for source, reason in collector.failures.items():
            self.progress.say(f"the counters of {source} were not always readable: {reason}")
        for reason in gpus.failures.values():
            self.progress.say(f"the GPUs were not always readable: {reason}")
        return self._close(experiment, folder, "completed", None)

    def _warn_of_burst(self, links: Sequence[MeasuredLink], model_bytes: int) -> None:
        """Once a session. What a message is, only the workers know."""
        warning = burst_warning(links, model_bytes)
        if warning and not self.warned:
            self.warned.append(warning)
            self.progress.say(warning)

    def _close(
        self, experiment: Experiment, folder: RunFolder, status: str, error: str | None
    ) -> Summary:
        if not folder.spec.exists():
            write_json(folder.spec, experiment.to_json())
        summary = self.summarise(folder, experiment, status, error)
        write_json(folder.summary, summary)
        self.progress.end(summary)
        return summary


def _slow_imports(experiments: Iterable[Experiment]) -> tuple[str, ...]:
    """Each once, in the order in which they are to be imported."""
    modules: dict[str, None] = {}
    for experiment in experiments:
        facts = STRATEGIES[experiment.strategy], LAUNCHERS[experiment.launcher]
        modules |= dict.fromkeys(module for one in facts for module in one.imports)
    return tuple(modules)


def record_links(
    folder: RunFolder,
    links: Sequence[MeasuredLink],
    before: Sequence[LinkStatistics] = (),
    after: Sequence[LinkStatistics] = (),
) -> None:
    if links:
        write_json(folder.links, Links(links=with_statistics(links, before, after)))


def watch(
    experiment: Experiment,
    folder: RunFolder,
    cluster: Cluster,
    progress: Progress,
    met: Callable[[Sequence[MeasuredLink], int], None],
) -> None:
    """Wait until every node has ended its run; RunFailed when one cannot.

    `met` is told the links and the size of the model as soon as a worker says it.
    """
    names = experiment.all_names
    writers = {r: name for r, name in enumerate(names) if name in experiment.event_writers}
    nodes = NodeWatch({rank: folder.events_of(name) for rank, name in writers.items()}, GRACE_S)
    while True:
        for rank, event in nodes.read():
            progress.event(rank, event)
            if isinstance(event, Hello) and rank == 0:
                met(cluster.links, event.model_bytes)
            elif isinstance(event, Notice):
                progress.say(f"  {names[rank]}: {event.text}")
        if not nodes.remaining:
            return
        exits = cluster.exited()
        if nodes.is_overdue(bool(exits)):
            raise RunFailed(explain(exits, nodes.failures, folder, cluster, experiment))
        progress.tick()
        time.sleep(POLL_S)


def explain(
    exits: dict[int, int],
    failures: dict[int, Failure],
    folder: RunFolder,
    cluster: Cluster,
    experiment: Experiment,
) -> str:
    """The node that failed first and why: one that was killed, else the one that complained first.

    When a node dies its peers complain of a closed connection; they are not the cause.
    """
    names = experiment.all_names
    signals = {128 + number for number in signal.Signals}
    killed = sorted(rank for rank, code in exits.items() if code in signals)
    silent = sorted(set(exits) - set(failures))  # so no other node made them fail
    starved = sorted(cluster.out_of_memory())
    if starved:
        rank = starved[0]
        cause = "ran out of memory"
        if rank < experiment.nodes and experiment.memory_per_node is not None:
            limit = write_memory(experiment.memory_per_node)
            cause += f": the kernel ended it at its limit of {limit}; raise --total-memory"
    elif killed:
        rank = killed[0]
        name = signal.Signals(exits[rank] - 128).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        cause = f"was ended by {name}{hint}"
    elif silent:
        rank = silent[0]
        words = cluster.last_words(rank).strip().splitlines()
        cause = f"ended with code {exits[rank]}" + (f": {words[-1]}" if words else "")
    else:
        rank = min(failures, key=lambda r: failures[r].t)
        cause = failures[rank].message
    return f"{names[rank]} {cause}; see {folder.log_of(names[rank])}"
