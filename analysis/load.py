"""Run folders -> tables. A run that cannot be read is a row that says why, never an error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cluster.records import SCHEMA
from cluster.run_folder import RunFolder

KNOBS: dict[str, tuple[str, str]] = {
    "local_steps": ("spec.local_steps", "Int64"),
    "compress": ("spec.compress", "str"),
    "epochs": ("spec.epochs", "Int64"),
    "train_size": ("spec.train_size", "Int64"),
    "batch_size": ("spec.batch_size", "Int64"),
    "lr": ("spec.lr", "float64"),
    "momentum": ("spec.momentum", "float64"),
    "cpus": ("spec.cpus", "float64"),
    "seed": ("spec.seed", "Int64"),
}
"""What runs may differ in beside strategy and workers. An older run may lack one."""

COLUMNS: dict[str, tuple[str, str]] = {
    "session": ("session", "str"),
    "run": ("run", "str"),
    "status": ("status", "str"),
    "error": ("error", "str"),
    "strategy": ("spec.strategy", "str"),
    "workers": ("spec.workers", "Int64"),
    "passes": ("spec.passes", "Int64"),
    "schedule": ("spec.schedule", "str"),
    **KNOBS,
    "engine": ("spec.engine", "str"),
    "accuracy": ("accuracy", "float64"),
    "loss": ("loss", "float64"),
    "model_bytes": ("model_bytes", "Int64"),
    "steps": ("steps", "Int64"),
    "sent_per_step_bytes": ("per_step.sent_mean", "float64"),
    "predicted_per_step_bytes": ("per_step.predicted_mean", "float64"),
    "sent_over_predicted": ("per_step.ratio", "float64"),
    "busiest_sent_per_step_bytes": ("per_step.sent_max", "float64"),
    "busiest_predicted_per_step_bytes": ("per_step.predicted_max", "float64"),
    "train_sent_bytes": ("bytes.train.sent", "Int64"),
    "counters_largest_difference": ("counters.largest_difference", "float64"),
    "step_median_s": ("seconds.step_median", "float64"),
    "compute_median_s": ("seconds.compute_median", "float64"),
    "exposed_communication_median_s": ("seconds.exposed_communication_median", "float64"),
    "train_s": ("seconds.train", "float64"),
    "total_s": ("seconds.total", "float64"),
}
"""Column -> where it is in summary.json, and its type in the table. Fractions are of 1."""

CURVE_COLUMNS: dict[str, tuple[str, str]] = {
    "epoch": ("epoch", "Int64"),
    "accuracy": ("accuracy", "float64"),
    "sent_bytes": ("sent_bytes", "Int64"),
}

NEVER_NULL = ("session", "run", "status", "strategy", "workers", "engine", "epoch", "sent_bytes")


@dataclass(frozen=True)
class Runs:
    table: pd.DataFrame
    """One row per run, numbered from 1."""
    curves: pd.DataFrame
    """One row per run and epoch; `number` is the run's row in the table."""


def load_runs(folders: Iterable[RunFolder]) -> Runs:
    rows, points = [], []
    for number, folder in enumerate(folders, start=1):
        row, curve = _read(folder)
        rows.append(row)
        points += [{"number": number, **point} for point in curve]
    table = _frame(rows, COLUMNS)
    table.index = pd.RangeIndex(1, len(rows) + 1, name="number")
    return Runs(table, _frame(points, {"number": ("", "Int64"), **CURVE_COLUMNS}))


def _frame(rows: list[dict[str, Any]], columns: dict[str, tuple[str, str]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            name: pd.Series([row.get(name) for row in rows], dtype=kind)
            for name, (_, kind) in columns.items()
        }
    )


def _read(folder: RunFolder) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A run's row and the points of its curve."""
    path = folder.path.resolve()
    named = {"session": path.parent.name, "run": path.name}
    try:
        summary = folder.read_summary()
        if summary.get("schema") != SCHEMA:
            reason = (
                f"summary.json has schema {summary.get('schema')!r}, this report reads {SCHEMA}"
            )
            return {**named, "status": "other schema", "error": reason}, []
        curve = summary.get("curve")
        if not isinstance(curve, list):
            raise ValueError("it has no curve")
        return _pick(summary, COLUMNS), [_pick(point, CURVE_COLUMNS) for point in curve]
    except FileNotFoundError:
        reason = "no summary.json: the run is still going on, or was killed"
    except (OSError, ValueError) as error:
        reason = f"summary.json is cut off or damaged: {error}"
    return {**named, "status": "damaged", "error": reason}, []


def _pick(document: Any, columns: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """The columns' values; ValueError for one that is missing or is not of its type."""
    picked = {}
    for name, (path, kind) in columns.items():
        value = document
        for key in path.split("."):
            if value is None and name not in NEVER_NULL:
                break
            if isinstance(value, dict) and key not in value and name in KNOBS:
                value = None
                break
            if not isinstance(value, dict) or key not in value:
                raise ValueError(f"it has no {path}")
            value = value[key]
        if not _fits(value, kind) and (value is not None or name in NEVER_NULL):
            raise ValueError(f"{path} is {value!r}")
        picked[name] = value
    return picked


def _fits(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return False
    if kind == "Int64":
        return isinstance(value, int) and abs(value) < 2**63
    return isinstance(value, str if kind == "str" else (int, float))
