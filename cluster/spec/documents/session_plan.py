"""session.json: the plan of a session, written before its first run. Standard library only.

It is not changed afterwards: which runs are done, running or to come is read from their folders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster.spec.documents.codec import SCHEMA, Amount, Document, DocumentError, Json, Options
from cluster.spec.documents.run_folder import RunFolder, read_document, write_json
from cluster.spec.documents.summary import OUT_OF_MEMORY, Summary
from cluster.spec.experiment import Experiment
from cluster.spec.hosts import HostOptions

TO_COME, RUNNING, COMPLETED = "to come", "running", "completed"


class PlannedRun(Document):
    """A run of the session."""

    run: str
    """Name of the run's folder."""
    start_s: Amount = 0.0
    """Seconds that its nodes were expected to take to start; 0 where they are up already."""
    run_s: Amount = 0.0
    """Seconds that the run itself was expected to take, when the session began."""
    spec: Options
    """The experiment, as in spec.json."""


class SessionPlan(Document):
    """session.json: all runs of a session, in their order, and what `--resume` needs for them."""

    schema: int = SCHEMA
    """Version of the document."""
    command: list[str]
    """The command line that made the session, word by word."""
    preset: str | None = None
    """Name or file of the preset; null without one."""
    title: str | None = None
    """The preset's title."""
    memory_may_end: bool = False
    """The preset looks for the end of memory: a run that finds it is an answer, not a failure."""
    data_dir: str | None = None
    """`--data-dir`, as an absolute path; null for the cache."""
    hosts: HostOptions | None = None
    """How hosts that are already there are reached; null for nodes of this machine."""
    runs: list[PlannedRun] = field(default_factory=list)
    """Every run."""

    def is_answered(self, summary: Summary) -> bool:
        """Whether a run is completed, or has run out of memory where that is what was asked."""
        starved = self.memory_may_end and OUT_OF_MEMORY in (summary.error or "")
        return summary.status == COMPLETED or starved

    def experiments(self) -> dict[str, Experiment]:
        """By the name of the run's folder; SpecError for what is no experiment."""
        return {planned.run: Experiment.from_json(planned.spec) for planned in self.runs}


@dataclass(frozen=True)
class SessionFolder:
    """runs/<session>/: session.json, a folder for every run, and the report."""

    path: Path

    @property
    def plan(self) -> Path:
        return self.path / "session.json"

    def read_plan(self) -> SessionPlan:
        """DocumentError for what is no plan, or has run names that are no plain file names."""
        plan = read_document(self.plan, SessionPlan, _with_hosts)
        for index, planned in enumerate(plan.runs):
            if Path(planned.run).name != planned.run or planned.run.startswith("."):
                raise DocumentError(f"{self.plan.name}: runs[{index}].run is no folder's name")
        return plan

    def write_plan(self, plan: SessionPlan) -> None:
        write_json(self.plan, plan)

    def run(self, name: str) -> RunFolder:
        return RunFolder(self.path / name)

    def read_states(self, plan: SessionPlan) -> dict[str, str]:
        """By run: `to come`, `running` (also where a killed session left it), or its status."""
        return {planned.run: _state(self.run(planned.run)) for planned in plan.runs}

    def read_completed(self, plan: SessionPlan) -> dict[str, Summary]:
        """The summaries of runs that need not be repeated, by run."""
        found = {planned.run: _summary(self.run(planned.run)) for planned in plan.runs}
        return {run: s for run, s in found.items() if s is not None and plan.is_answered(s)}


def run_names(experiments: Sequence[Experiment]) -> list[str]:
    """The names of the run folders of a session."""
    return [f"{k:03d}-{run.label}-s{run.seed}" for k, run in enumerate(experiments, 1)]


def _with_hosts(document: Json) -> Json:
    """Of an earlier version, which knew of hosts of Spark alone."""
    master = document.pop("spark_master", None)
    return document if master is None else {**document, "hosts": {"spark_master": master}}


def _state(folder: RunFolder) -> str:
    if not folder.summary.exists():
        return RUNNING if folder.spec.exists() else TO_COME
    summary = _summary(folder)
    return RUNNING if summary is None else summary.status


def _summary(folder: RunFolder) -> Summary | None:
    """None where there is none that can be read."""
    try:
        return folder.read_summary()
    except (OSError, DocumentError):
        return None
