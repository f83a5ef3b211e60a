"""A session: the runs of one ./measure.sh call, grouped by the cluster they share."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.collector import Collector
from cluster.engine import Cluster, ClusterPlan, Engine, EngineError
from cluster.progress import Progress
from cluster.records import Summary
from cluster.run_folder import RunFolder, node_name, write_json
from cluster.spec import Experiment
from cluster.tail import EventTail

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
    environment: dict[str, Any]
    engine: Engine
    summarise: Summarise
    progress: Progress

    def conduct(self, experiments: Sequence[Experiment]) -> list[Summary]:
        """All runs; one that fails does not stop the others."""
        runs = [(e, self._create(index, e)) for index, e in enumerate(experiments, 1)]
        summaries = []
        for _, group in itertools.groupby(runs, key=lambda run: run[0].cluster):
            remaining = list(group)
            while remaining:
                done = self._on_one_cluster(remaining)
                summaries += done
                remaining = remaining[len(done) :]
        return summaries

    def _create(self, index: int, experiment: Experiment) -> RunFolder:
        name = f"{index:03d}-{experiment.label}-s{experiment.seed}"
        folder = RunFolder(self.folder / name).create()
        write_json(folder.environment, self.environment)
        self.engine.prepare_run(experiment, folder)
        return folder

    def _on_one_cluster(self, runs: list[Run]) -> list[Summary]:
        """Raise one cluster and do the runs on it, until all are done or one has failed."""
        first, folder = runs[0]
        plan = ClusterPlan(
            name=f"{self.folder.name}-{folder.name[:3]}",
            workers=first.workers,
            cpus=first.cpus,
            runs=tuple(folder for _, folder in runs),
            data_folder=self.data_folder,
        )
        summaries: list[Summary] = []
        current: Run = runs[0]
        try:
            self.progress.starting(first)
            with self.engine.cluster(plan) as cluster:
                for current in runs:
                    summaries.append(self._one_run(*current, cluster))
        except (RunFailed, EngineError) as error:
            summaries.append(self._close(*current, "failed", str(error)))
        except KeyboardInterrupt:
            self._close(*current, "interrupted", "interrupted by the user")
            raise
        return summaries

    def _one_run(self, experiment: Experiment, folder: RunFolder, cluster: Cluster) -> Summary:
        collector = Collector(folder.samples, cluster.sources, experiment.interval)
        with collector:
            self.progress.begin(experiment, folder, collector)
            write_json(folder.spec, experiment.to_json())
            watch(experiment, folder, cluster, self.progress)
        if folder.samples.name in collector.failures:
            raise RunFailed(f"samples are incomplete: {collector.failures[folder.samples.name]}")
        for source, reason in collector.failures.items():
            self.progress.say(f"the counters of {source} were not always readable: {reason}")
        return self._close(experiment, folder, "completed", None)

    def _close(
        self, experiment: Experiment, folder: RunFolder, status: str, error: str | None
    ) -> Summary:
        if not folder.spec.exists():
            write_json(folder.spec, experiment.to_json())
        summary = self.summarise(folder, experiment, status, error)
        write_json(folder.summary, summary.to_json())
        self.progress.end(summary)
        return summary


def watch(experiment: Experiment, folder: RunFolder, cluster: Cluster, progress: Progress) -> None:
    """Until every node has ended its run; RunFailed when one cannot."""
    tails = [EventTail(folder.events(rank)) for rank in range(experiment.workers)]
    ended: set[int] = set()
    errors: dict[int, tuple[float, str]] = {}
    deadline: float | None = None
    while len(ended) < experiment.workers:
        for rank, tail in enumerate(tails):
            for event in tail.read():
                progress.event(rank, event)
                if event["event"] == "end":
                    ended.add(rank)
                elif event["event"] == "error":
                    errors[rank] = (event["t"], event["message"])
        if len(ended) == experiment.workers:
            break
        exits = cluster.exited()
        if exits or errors:
            deadline = deadline or time.monotonic() + GRACE_S
            if time.monotonic() > deadline:
                raise RunFailed(explain(exits, errors, folder, cluster))
        progress.tick()
        time.sleep(0.05)


def explain(
    exits: dict[int, int],
    errors: dict[int, tuple[float, str]],
    folder: RunFolder,
    cluster: Cluster,
) -> str:
    """The node that failed first and why: one that was killed, else the one that complained first.

    When a node dies its peers complain of a closed connection; they are not the cause.
    """
    signals = {128 + number for number in signal.Signals}
    killed = sorted(rank for rank, code in exits.items() if code in signals)
    silent = sorted(set(exits) - set(errors))  # gone without a word, so not for another's sake
    if killed:
        rank = killed[0]
        name = signal.Signals(exits[rank] - 128).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        cause = f"was ended by {name}{hint}"
    elif silent:
        rank = silent[0]
        words = cluster.last_words(rank).strip().splitlines()
        cause = f"ended with code {exits[rank]}" + (f": {words[-1]}" if words else "")
    else:
        rank = min(errors, key=lambda r: errors[r][0])
        cause = errors[rank][1]
    return f"{node_name(rank)} {cause}; see {folder.log(rank)}"
