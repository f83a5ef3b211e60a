"""A run to export: its summary, and the events and samples behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from analysis.summary.recorded_run import RecordedRun
from analysis.tables.checks import read_checked
from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.run_folder import RunFolder, node_name
from cluster.spec.documents.summary import Summary


@dataclass(frozen=True)
class ExportedRun:
    folder: RunFolder
    """Its names are those of the folders: a summary may hold any text."""
    summary: Summary
    record: RecordedRun

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Unix time of the first and the last event; of spec.json where there is none."""
        times = [event.t for log in self.record.logs for event in log.events]
        times = times or [self.folder.spec.stat().st_mtime]
        return min(times), max(times)

    @cached_property
    def options(self) -> dict[str, int | float | str | bool]:
        """The experiment's options that have a value."""
        spec = self.summary.spec
        return {key: value for key, value in spec.items() if value is not None and key != "schema"}


def read_run(folder: RunFolder) -> ExportedRun:
    """OSError or ValueError, where a file of the run is missing or damaged."""
    folder = RunFolder(folder.path.resolve())
    if not folder.summary.exists():
        raise DocumentError("no summary.json: the run is still going on, or was killed")
    run = ExportedRun(
        folder, read_checked(folder), RecordedRun.read(folder, folder.read_experiment())
    )
    for rank, log in enumerate(run.record.logs):
        for event in log.events:
            numbers = (value for value in vars(event).values() if isinstance(value, float))
            if not all(map(math.isfinite, numbers)):
                raise DocumentError(f"{node_name(rank)}.jsonl: a number is not finite")
    return run
