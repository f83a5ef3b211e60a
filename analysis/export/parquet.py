"""Parquet tables: runs, steps, epochs, samples, links. Columns have the types of the documents.

`session` and `run` are in every table; `t` is a time in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from analysis.export.exported_run import ExportedRun
from analysis.export.scalars import OF_AN_EVALUATION
from analysis.export.timeline import microseconds
from analysis.tables.columns import dtype
from analysis.tables.load import load_runs
from cluster.spec.documents.codec import hints
from cluster.spec.documents.events import Step
from cluster.spec.documents.records import COUNTER_FIELDS

TYPES = {
    "Int64": pa.int64(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
    "str": pa.string(),
}
NAMES = [("session", pa.string()), ("run", pa.string())]
TIME = ("t", pa.timestamp("us", tz="UTC"))
OF_A_STEP = {key: hint for key, hint in hints(Step).items() if key not in ("t", "worker")}
STEPS = pa.schema(
    [*NAMES, ("worker", pa.int64()), TIME, *((k, TYPES[dtype(h)]) for k, h in OF_A_STEP.items())]
)
SAMPLES = pa.schema(
    [
        *(*NAMES, TIME, ("source", pa.string()), ("node", pa.string())),
        *((name, pa.int64()) for name in COUNTER_FIELDS),
    ]
)
Row = tuple[Any, ...]


def write(runs: Iterable[ExportedRun], output: Path) -> None:
    """Steps and samples run by run; the other tables, which are small, at once."""
    output.mkdir(parents=True, exist_ok=True)
    folders = []
    with (
        ParquetWriter(output / "steps.parquet", STEPS) as steps,
        ParquetWriter(output / "samples.parquet", SAMPLES) as samples,
    ):
        for run in runs:
            steps.write_table(_table(STEPS, _steps(run)))
            samples.write_table(_table(SAMPLES, _samples(run)))
            folders.append(run.folder)
    loaded = load_runs(folders)
    scored = loaded.curves.rename(columns=OF_AN_EVALUATION)
    epochs = loaded.epochs.merge(scored, on=["number", "epoch"], how="outer")
    for name, frame in (("epochs", epochs), ("links", loaded.links)):
        loaded.named(frame).to_parquet(output / f"{name}.parquet", index=False)
    loaded.table.to_parquet(output / "runs.parquet", index=False)


def _table(schema: pa.Schema, rows: Iterator[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def _steps(run: ExportedRun) -> Iterator[Row]:
    for rank, steps in enumerate(run.record.steps):
        for step in steps:
            worker = rank if step.worker is None else step.worker
            values = (getattr(step, key) for key in OF_A_STEP)
            yield (*_names(run), worker, microseconds(step.t), *values)


def _samples(run: ExportedRun) -> Iterator[Row]:
    for sample in run.record.samples:
        read = (sample.source, sample.node, *sample.counters.values())
        yield (*_names(run), microseconds(sample.t), *read)


def _names(run: ExportedRun) -> tuple[str, str]:
    return run.folder.session, run.folder.name
