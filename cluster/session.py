"""A session: the runs of one ./measure.sh call, grouped by the cluster they share."""

import itertools
import math
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from cluster.elastic.roll import Roll
from cluster.engine import (
    Cluster,
    ClusterPlan,
    Engine,
    EngineError,
    EngineUnavailable,
    LinksOffTarget,
)
from cluster.gpu.nvml import open_nvml
from cluster.gpu.samples import GpuCollector, gpus_by_node
from cluster.host.node_folders import NodeFolders
from cluster.links.findings import burst_warning, verdict, with_statistics
from cluster.observe.collector import Collector
from cluster.observe.host import HostCollector, warn_if_loaded
from cluster.observe.node_watch import RunFailed
from cluster.observe.progress import Progress
from cluster.observe.result_row import without_details
from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.environment import Environment
from cluster.spec.documents.links import Links, LinkStatistics, MeasuredLink
from cluster.spec.documents.run_folder import RunFolder, write_json
from cluster.spec.documents.session_plan import COMPLETED, SessionPlan
from cluster.spec.documents.summary import Summary
from cluster.spec.errors import file_problem
from cluster.spec.exchange.strategies import facts_of
from cluster.spec.experiment import EXISTING, LONGEST_LABEL, Experiment
from cluster.spec.faults.checks import CONTINUE
from cluster.spec.launchers import LAUNCHERS
from cluster.sweep.continuation import copy_states
from cluster.sweep.estimate import about, remaining_s
from cluster.watch import FOLDER_REMOVED, watch_run

Summarise = Callable[[RunFolder, Experiment, str, str | None], Summary]
Run = tuple[Experiment, RunFolder]

HANDED_BYTES = 60_000
"""Of run folders' names that one cluster is handed at most: Linux takes 128 KiB in one argument."""


@dataclass(frozen=True)
class Session:
    """What all runs of a session have in common, and the runs that are closed."""

    folder: Path
    plan: SessionPlan
    data_folder: Path
    environment: Environment
    engine: Engine
    summarise: Summarise
    progress: Progress
    closed: dict[str, Summary] = field(default_factory=dict)
    """By run: of a session that is resumed, its completed runs to begin with."""
    warned: list[str] = field(default_factory=list)

    @property
    def summaries(self) -> list[Summary]:
        """Those of closed runs, in the order of the plan."""
        return [self.closed[run.run] for run in self.plan.runs if run.run in self.closed]

    def conduct(self) -> list[Summary]:
        """All runs that are not closed; one that fails does not stop the others."""
        experiments = self.plan.experiments()
        open_runs = {name: e for name, e in experiments.items() if name not in self.closed}
        runs = [(e, self._create(name, e)) for name, e in open_runs.items()]
        if any(experiment.engine != EXISTING for experiment, _ in runs):
            most = max(experiment.slowdown for experiment, _ in runs)
            warn_if_loaded(most, self.progress.say)
        at_once = max(1, HANDED_BYTES // (len(str(self.folder)) + LONGEST_LABEL))
        for _, group in itertools.groupby(runs, key=lambda run: run[0].cluster):
            remaining = list(group)
            while remaining:
                try:
                    self._on_cluster(remaining[:at_once])
                except EngineUnavailable as error:
                    if not self.closed:
                        raise
                    self._close(*remaining[0], "failed", str(error))
                remaining = [
                    # Of runs that are spread, one that is not closed may have begun.
                    (e, self._create(folder.name, e)) if e.is_spread else (e, folder)
                    for e, folder in remaining
                    if folder.name not in self.closed
                ]
        return self.summaries

    def _create(self, name: str, experiment: Experiment) -> RunFolder:
        """A new folder; what a killed or failed attempt at this run has left is removed."""
        path = self.folder / name
        if path.exists():
            shutil.rmtree(path)
        folder = prepare_folder(path, self.environment)
        copy_states(experiment, folder)
        self.engine.prepare_run(experiment, folder, self.data_folder)
        return folder

    def _place(self, folder: RunFolder) -> str:
        """run 3 of 7, about 4 min left"""
        left = about(remaining_s(self.plan, self.closed))
        number = [run.run for run in self.plan.runs].index(folder.name) + 1
        return f"run {number} of {len(self.plan.runs)}, {left} left"

    def _on_cluster(self, runs: list[Run]) -> None:
        """Start one cluster and do the runs on it, until all are done or one has failed."""
        first, folder = runs[0]
        if not folder.path.is_dir():
            self._close(first, folder, "failed", FOLDER_REMOVED)
            return
        widest = max((experiment for experiment, _ in runs), key=lambda run: run.nodes)
        folders = NodeFolders(folder, widest.event_writers, self.engine.node_user)
        plan = ClusterPlan(
            name=f"{self.folder.name}-{folder.name[:3]}",
            nodes=len(runs) if first.is_spread else widest.started_nodes,
            spread=first.is_spread,
            auxiliary_services=first.auxiliary_services,
            cpus={**dict.fromkeys(first.fault_cores, math.inf), **first.host_limits},
            memory_bytes=first.memory_per_node,
            links=first.shaped_links,
            paths=first.shaped_paths,
            sites=first.site_members,
            dilation=first.slowdown,
            processes=first.processes_per_node,
            runs=tuple(folder for _, folder in runs),
            data_folder=self.data_folder,
            writers=widest.event_writers,
            node_folders=folders.folder,
            imports=_slow_imports(experiment for experiment, _ in runs),
            user_folders=first.user_folders,
            requirements=first.requirements,
            network=first.network,
            background=first.background,
        )
        current: Run = runs[0]
        try:
            self.progress.starting(first)
            with folders, self.engine.cluster(plan) as cluster:
                if cluster.announcement:
                    self.progress.say(cluster.announcement)
                if cluster.links:
                    self.progress.say(verdict(cluster.links))
                for experiment, folder in runs if first.is_spread else ():
                    write_json(folder.spec, experiment.to_json())  # all may begin
                for current in runs:
                    try:
                        self._run(*current, cluster, folders)
                    except RunFailed as error:  # said before the nodes are removed
                        self._close(*current, "failed", str(error))
                        if first.is_spread:
                            continue  # the other runs are on other hosts
                        break
                    if current[0].on_failure == CONTINUE and cluster.exited():
                        break  # the other runs need all nodes
        except (RunFailed, EngineError, OSError) as error:
            if isinstance(error, LinksOffTarget):
                record_links(current[1], error.links)
            why = file_problem(error) if isinstance(error, OSError) else str(error)
            self._end(current, "failed", why)
        except KeyboardInterrupt:
            self._end(current, "interrupted", "interrupted by the user")
            raise

    def _end(self, run: Run, status: str, why: str) -> None:
        """Close a run, unless it was closed when its nodes could not be removed."""
        if run[1].name in self.closed:
            self.progress.say(f"after {run[1].name}: {why}")
        else:
            self._close(*run, status, why)

    def _run(
        self, experiment: Experiment, folder: RunFolder, cluster: Cluster, folders: NodeFolders
    ) -> None:
        collector = Collector(
            folder.samples, cluster.sources, experiment.interval, experiment.node_names
        )
        record_links(folder, cluster.links)
        before = cluster.link_statistics()
        gpus = GpuCollector(
            folder.gpu_samples,
            open_nvml() if experiment.gpu else None,
            gpus_by_node(experiment, range(max(experiment.started_nodes, experiment.gpu))),
            experiment.interval,
        )
        is_here = experiment.engine != EXISTING
        host = HostCollector(folder.host, experiment.interval) if is_here else nullcontext()
        continues = experiment.on_failure == CONTINUE
        roll = Roll(experiment, folder, experiment.absent) if continues else None
        leaving = closing(roll) if roll else nullcontext()
        with folders.of_run(folder, experiment), collector, gpus, host, leaving:
            self.progress.begin(experiment, folder, collector, self._place(folder))
            if experiment.is_spread:
                cluster.watch(folder)
            write_json(folder.spec, experiment.to_json())
            watch_run(
                experiment,
                folder,
                cluster,
                self.progress,
                self._warn_of_burst,
                collector.sent_rates,
                roll,
            )
        record_links(folder, cluster.links, before, cluster.link_statistics())
        if folder.samples.name in collector.failures:
            raise RunFailed(f"samples are incomplete: {collector.failures[folder.samples.name]}")
        for source, reason in collector.failures.items():
            self.progress.say(f"the counters of {source} were not always readable: {reason}")
        for reason in gpus.failures.values():
            self.progress.say(f"the GPUs were not always readable: {reason}")
        self._close(experiment, folder, COMPLETED, None)

    def _warn_of_burst(self, links: Sequence[MeasuredLink], model_bytes: int) -> None:
        """Once a session; the size of a message is known from the workers only."""
        warning = burst_warning(links, model_bytes)
        if warning and not self.warned:
            self.warned.append(warning)
            self.progress.say(warning)

    def _close(
        self, experiment: Experiment, folder: RunFolder, status: str, error: str | None
    ) -> None:
        summary = self._summary(experiment, folder, status, error)
        try:
            if not folder.spec.exists():
                write_json(folder.spec, experiment.to_json())
            write_json(folder.summary, summary)
        except FileNotFoundError:  # then this summary is all that is left of the run
            status = "failed" if status == COMPLETED else status
            summary = replace(summary, status=status, error=FOLDER_REMOVED)
        self.closed[folder.name] = without_details(summary)
        self.progress.end(summary)

    def _summary(
        self, experiment: Experiment, folder: RunFolder, status: str, error: str | None
    ) -> Summary:
        """What the nodes' events say; they may say anything."""
        try:
            return self.summarise(folder, experiment, status, error)
        except DocumentError as damage:
            if status == COMPLETED:
                raise RunFailed(f"the nodes' events make no summary: {damage}") from damage
            return Summary(
                session=folder.session,
                run=folder.name,
                status=status,
                error=error,
                spec=experiment.to_json(),
            )


def prepare_folder(
    path: Path, environment: Environment, experiment: Experiment | None = None
) -> RunFolder:
    """A new run folder; workers start as soon as they find the spec, so it may follow later."""
    folder = RunFolder(path).create()
    write_json(folder.environment, environment)
    if experiment is not None:
        write_json(folder.spec, experiment.to_json())
    return folder


def _slow_imports(experiments: Iterable[Experiment]) -> tuple[str, ...]:
    """Slow modules of the runs, each once, in the order in which to import them."""
    modules: dict[str, None] = {}
    for experiment in experiments:
        facts = facts_of(experiment.strategy), LAUNCHERS[experiment.launcher]
        modules |= dict.fromkeys(module for fact in facts for module in fact.imports)
    return tuple(modules)


def record_links(
    folder: RunFolder,
    links: Sequence[MeasuredLink],
    before: Sequence[LinkStatistics] = (),
    after: Sequence[LinkStatistics] = (),
) -> None:
    if links:
        write_json(folder.links, Links(links=with_statistics(links, before, after)))
