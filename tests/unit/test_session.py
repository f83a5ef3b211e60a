"""Runs of a session go on when a cluster cannot be started for one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.engine import ClusterPlan, EngineUnavailable
from cluster.observe.progress import choose_progress
from cluster.session import Session
from cluster.spec.documents.environment import Environment
from cluster.spec.documents.events import End
from cluster.spec.documents.records import Counters
from cluster.spec.documents.run_folder import RunFolder, new_session
from cluster.spec.documents.summary import Summary
from cluster.spec.experiment import Experiment


class Slots:
    """An engine with room for so many nodes, whose runs end at once."""

    sources = ()
    announcement = None

    def __init__(self, free: int) -> None:
        self.free = free
        self.links: list[dict[str, Any]] = []

    def prepare_run(self, *_: object) -> None:
        pass

    def cluster(self, plan: ClusterPlan) -> Slots:
        self.plan = plan
        return self

    def __enter__(self) -> Slots:
        if self.plan.nodes > self.free:
            raise EngineUnavailable("too few free slots")
        for run in self.plan.runs:
            for rank in range(self.plan.nodes):
                run.events(rank).write_text(End(counters=Counters()).line())
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def link_statistics(self) -> list[dict[str, Any]]:
        return []


def conduct(output: Path, workers: list[int]) -> list[Summary]:
    def summarise(folder: RunFolder, spec: Experiment, status: str, error: str | None) -> Summary:
        document = spec.to_json()
        return Summary(session="", run=folder.name, status=status, error=error, spec=document)

    session = Session(
        folder=new_session(output),
        data_folder=output,
        environment=Environment(command=[], engine={}),
        engine=Slots(2),  # type: ignore[arg-type]
        summarise=summarise,
        progress=choose_progress(quiet=True),
    )
    return session.conduct([Experiment(workers=count) for count in workers])


def test_runs_before_and_after_one_that_found_no_room_are_kept(tmp_path: Path) -> None:
    done = conduct(tmp_path, [2, 3, 1])
    assert [summary.status for summary in done] == ["completed", "failed", "completed"]
    assert done[1].error == "too few free slots"


def test_the_first_that_finds_no_room_is_a_mistake_in_what_was_asked(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable):
        conduct(tmp_path, [3, 2])
