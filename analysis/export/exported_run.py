"""A run to export: its summary, and the events and samples behind it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

from analysis.summary.recorded_run import RecordedRun
from analysis.tables.checks import read_checked
from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.summary import Summary

LATEST = 1e11
"""Unix time, seconds, in the year 5138: other tools count in microseconds of 64 bits."""


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
        """The experiment's options that have a value, by their names in this version."""
        values = dataclasses.asdict(self.record.experiment)
        return {name: value for name, value in values.items() if value is not None}


def read_run(folder: RunFolder) -> ExportedRun:
    """OSError or ValueError, where a file of the run is missing or damaged."""
    folder = RunFolder(folder.path.resolve())
    if not folder.summary.exists():
        raise DocumentError("no summary.json: the run is still going on, or was killed")
    run = ExportedRun(
        folder, read_checked(folder), RecordedRun.read(folder, folder.read_experiment()).emulated()
    )
    times = (*run.interval, *(sample.t for sample in run.record.samples))
    if not 0 <= min(times) <= max(times) < LATEST:
        raise DocumentError(f"its times are from {min(times):g} s to {max(times):g} s")
    return run
