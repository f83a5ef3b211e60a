"""Runs of a session go on when one of them cannot be started or loses its folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from cluster import session
from cluster.engine import ClusterPlan, EngineUnavailable
from cluster.observe.progress import choose_progress
from cluster.session import Session
from cluster.spec.documents.environment import Environment
from cluster.spec.documents.events import End
from cluster.spec.documents.records import Counters
from cluster.spec.documents.run_folder import RunFolder, new_session
from cluster.spec.documents.session_plan import PlannedRun, SessionPlan, run_names
from cluster.spec.documents.summary import Summary
from cluster.spec.experiment import Experiment
from cluster.watch import FOLDER_REMOVED


class Slots:
    """An engine with room for so many nodes, whose runs end at once."""

    sources = ()
    announcement = None
    removes: str | None = None
    """What is removed while the first cluster starts: its first run's folder, or the session's."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.started: list[int] = []
        """Runs that each cluster was started for."""
        self.links: list[dict[str, Any]] = []

    def prepare_run(self, *_: object) -> None:
        pass

    def node_user(self, rank: int) -> None:
        return None

    def cluster(self, plan: ClusterPlan) -> Slots:
        self.plan = plan
        self.started.append(len(plan.runs))
        return self

    def __enter__(self) -> Slots:
        if self.plan.nodes > self.free:
            raise EngineUnavailable("too few free slots")
        for run in self.plan.runs:
            for rank in range(self.plan.nodes):
                run.events(rank).write_text(End(counters=Counters()).line())
        if self.removes:
            path = self.plan.runs[0].path
            shutil.rmtree(path.parent if self.removes == "session" else path)
            self.removes = None
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def link_statistics(self) -> list[dict[str, Any]]:
        return []


def conduct(output: Path, workers: list[int], engine: Slots | None = None) -> list[Summary]:
    def summarise(folder: RunFolder, spec: Experiment, status: str, error: str | None) -> Summary:
        document = spec.to_json()
        return Summary(session="", run=folder.name, status=status, error=error, spec=document)

    experiments = [Experiment(workers=count) for count in workers]
    runs = [
        PlannedRun(run=name, spec=experiment.to_json())
        for name, experiment in zip(run_names(experiments), experiments, strict=True)
    ]
    found = Session(
        folder=new_session(output),
        plan=SessionPlan(command=[], runs=runs),
        data_folder=output,
        environment=Environment(command=[], engine={}),
        engine=engine or Slots(2),  # type: ignore[arg-type]
        summarise=summarise,
        progress=choose_progress(quiet=True),
    )
    return found.conduct()


def test_runs_before_and_after_one_that_found_no_room_are_kept(tmp_path: Path) -> None:
    done = conduct(tmp_path, [2, 3, 1])
    assert [summary.status for summary in done] == ["completed", "failed", "completed"]
    assert done[1].error == "too few free slots"


def test_the_first_that_finds_no_room_is_a_mistake_in_what_was_asked(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable):
        conduct(tmp_path, [3, 2])


def test_a_run_whose_folder_is_removed_fails_alone(tmp_path: Path) -> None:
    engine = Slots(2)
    engine.removes = "run"
    done = conduct(tmp_path, [2, 2, 1], engine)
    assert [summary.status for summary in done] == ["failed", "completed", "completed"]
    assert done[0].error == FOLDER_REMOVED


def test_a_session_that_was_removed_starts_no_more_clusters(tmp_path: Path) -> None:
    engine = Slots(2)
    engine.removes = "session"
    done = conduct(tmp_path, [2, 1, 2], engine)
    assert [summary.error for summary in done] == [FOLDER_REMOVED] * 3
    assert engine.started == [1]


def test_a_cluster_is_handed_no_more_folders_than_fit_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "HANDED_BYTES", 3 * (len(str(tmp_path)) + 150))
    engine = Slots(2)
    done = conduct(tmp_path, [2] * 7, engine)
    assert {summary.status for summary in done} == {"completed"}
    assert engine.started == [3, 3, 1]
