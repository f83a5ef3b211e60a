"""An MLflow file store: an experiment per session, a run per run.

MLflow 3 still reads and writes this format, but only where MLFLOW_ALLOW_FILE_STORE=true; `mlflow
migrate-filestore` copies it into a database.
"""

import contextlib
import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.export.exported_run import ExportedRun
from analysis.export.scalars import final_scalars, scalars

if TYPE_CHECKING:
    from mlflow import MlflowClient

MOST_AT_ONCE = 1000
"""Metrics in a batch, by MLflow's own limit."""
STATUS = {"completed": "FINISHED", "interrupted": "KILLED"}
"""Ours -> MLflow's; any other is FAILED."""


def write(runs: Iterable[ExportedRun], output: Path) -> None:
    # Before the import, which would ask a server of MLflow's what it wants to be told.
    os.environ |= {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
    from mlflow import MlflowClient

    client = MlflowClient(output.resolve().as_uri())
    experiments: dict[str, str] = {}
    for run in runs:
        session = run.folder.session
        if session not in experiments:
            experiments[session] = client.create_experiment(session)
        _write_run(client, experiments[session], run)


def _write_run(client: "MlflowClient", experiment: str, run: ExportedRun) -> None:
    from mlflow.entities import Metric, Param

    begin, end = (_milliseconds(t) for t in run.interval)
    name = run.folder.name
    made = client.create_run(experiment, start_time=begin, tags=_tags(run), run_name=name)
    identity = made.info.run_id
    params = [Param(key, str(value)) for key, value in run.options.items()]
    client.log_batch(identity, params=params)
    metrics = itertools.chain(
        (Metric(s.name, s.value, _milliseconds(s.t), s.step) for s in scalars(run)),
        (Metric(name, value, end, 0) for name, value in final_scalars(run).items()),
    )
    while batch := list(itertools.islice(metrics, MOST_AT_ONCE)):
        client.log_batch(identity, metrics=batch)
    client.log_artifact(identity, str(run.folder.summary))
    client.set_terminated(identity, STATUS.get(run.summary.status, "FAILED"), end)


def _tags(run: ExportedRun) -> dict[str, str]:
    tags = {"gradwire.status": run.summary.status, "gradwire.error": run.summary.error or ""}
    with contextlib.suppress(OSError, ValueError):  # not every run has one
        environment = run.folder.read_environment()
        tags["gradwire.command"] = " ".join(environment.command)
        tags["gradwire.commit"] = environment.commit or ""
    return {name: text for name, text in tags.items() if text}


def _milliseconds(t: float) -> int:
    return round(1000 * t)
