"""Run folders -> tables. A run that cannot be read is a row that says why, never an error."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, get_args, get_type_hints

import pandas as pd

from analysis.summary.summarise import summarise
from cluster.spec.experiment import OFF, Experiment
from cluster.spec.records import SCHEMA
from cluster.spec.run_folder import RunFolder

NO_OPTIONS = (
    *("strategy", "workers", "passes", "schedule", "engine", "dataset"),  # columns of their own
    *("interval", "timeline"),  # how a run was watched, not what it was
)
KINDS = {int: "Int64", float: "float64", bool: "boolean", str: "str"}


def _kind(hint: Any) -> str:
    """Of a field that may be null too."""
    (kind,) = [one for one in get_args(hint) or (hint,) if one is not NoneType]
    return KINDS[kind]


OPTIONS: dict[str, tuple[str, str]] = {
    name: (f"spec.{name}", _kind(hint))
    for name, hint in sorted(
        get_type_hints(Experiment).items(), key=lambda one: one[0] == "seed"
    )  # the seed comes last
    if name not in NO_OPTIONS
}
"""What runs may differ in beside strategy and workers: all of an Experiment. An older run may lack one."""

COLUMNS: dict[str, tuple[str, str]] = {
    "session": ("session", "str"),
    "run": ("run", "str"),
    "status": ("status", "str"),
    "error": ("error", "str"),
    "strategy": ("spec.strategy", "str"),
    "workers": ("spec.workers", "Int64"),
    "passes": ("spec.passes", "Int64"),
    "schedule": ("spec.schedule", "str"),
    **OPTIONS,
    "engine": ("spec.engine", "str"),
    "dataset": ("spec.dataset", "str"),
    "accuracy": ("accuracy", "float64"),
    "loss": ("loss", "float64"),
    "consensus_distance": ("consensus_distance", "float64"),
    "model_bytes": ("model_bytes", "Int64"),
    "steps": ("steps", "Int64"),
    "rounds": ("rounds", "Int64"),
    "sent_per_step_bytes": ("per_step.sent_mean", "float64"),
    "predicted_per_step_bytes": ("per_step.predicted_mean", "float64"),
    "sent_over_predicted": ("per_step.ratio", "float64"),
    "busiest_sent_per_step_bytes": ("per_step.sent_max", "float64"),
    "busiest_predicted_per_step_bytes": ("per_step.predicted_max", "float64"),
    "repeated_per_step_bytes": ("per_step.repeated_mean", "float64"),
    "train_sent_bytes": ("bytes.train.sent", "Int64"),
    "train_received_bytes": ("bytes.train.received", "Int64"),
    "total_sent_bytes": ("bytes.total.sent", "Int64"),
    "network_activity_sum": ("network_activity_sum", "Int64"),
    "full_lr": ("training.learning_rate.full", "float64"),
    "label_skew": ("training.shards.label_skew", "float64"),
    "control_sent_bytes": ("control.sent_mean", "float64"),
    "control_bytes_per_second": ("control.per_second", "float64"),
    "pairs_interface_payload_bytes": ("peers.interfaces.payload", "Int64"),
    "pairs_interface_header_bytes": ("peers.interfaces.headers", "Int64"),
    "pairs_closed_connections": ("peers.closed", "Int64"),
    "counter_worker_bytes": ("counters.worker", "Int64"),
    "counter_kernel_bytes": ("counters.kernel", "Int64"),
    "counter_docker_bytes": ("counters.docker", "Int64"),
    "counters_largest_difference": ("counters.largest_difference", "float64"),
    "step_median_s": ("seconds.step_median", "float64"),
    "compute_median_s": ("seconds.compute_median", "float64"),
    "exposed_communication_median_s": ("seconds.exposed_communication_median", "float64"),
    "communication_bound_s": ("seconds.communication_bound", "float64"),
    "train_s": ("seconds.train", "float64"),
    "total_s": ("seconds.total", "float64"),
}
"""Column -> where it is in summary.json, and its type in the table. Fractions are of 1."""

CURVE_COLUMNS: dict[str, tuple[str, str]] = {
    "epoch": ("epoch", "Int64"),
    "accuracy": ("accuracy", "float64"),
    "sent_bytes": ("sent_bytes", "Int64"),
    "seconds": ("seconds", "float64"),
    "consensus_distance": ("consensus_distance", "float64"),
}

TRAFFIC_COLUMNS: dict[str, tuple[str, str]] = {
    "node": ("node", "str"),
    "rank": ("rank", "Int64"),
    "role": ("role", "str"),
    "train_sent_bytes": ("train_sent", "Int64"),
    "train_received_bytes": ("train_received", "Int64"),
}
"""Column -> where it is in an entry of bytes.nodes. A launcher's own nodes have no rank."""

PAIR_COLUMNS: dict[str, tuple[str, str]] = {
    "sender": ("sender", "Int64"),
    "receiver": ("receiver", "Int64"),
    "sent_bytes": ("sent", "Int64"),
    "received_bytes": ("received", "Int64"),
    "talk_bytes": ("talk", "Int64"),
    "predicted_bytes": ("predicted", "Int64"),
}
"""Column -> where it is in an entry of peers.pairs."""

LINK_COLUMNS: dict[str, tuple[str, str]] = {
    "node": ("node", "str"),
    "asked_mbit": ("asked_mbit", "float64"),
    "sent_mbit": ("sent_mbit", "float64"),
    "received_mbit": ("received_mbit", "float64"),
    "error": ("error", "float64"),
    "burst_bytes": ("burst_bytes", "Int64"),
}
"""Column -> where it is in an entry of links."""

NODE_COLUMNS: dict[str, tuple[str, str]] = {
    "rank": ("rank", "Int64"),
    "role": ("role", "str"),
    "step_median_s": ("step_median", "float64"),
    "compute_median_s": ("compute_median", "float64"),
    "exposed_communication_median_s": ("exposed_communication_median", "float64"),
    "waiting_median_s": ("waiting_median", "float64"),
    "waits_mostly_for": ("waits_mostly_for", "Int64"),
}
"""Column -> where it is in an entry of seconds.by_node."""

EPOCH_COLUMNS: dict[str, tuple[str, str]] = {
    "epoch": ("epoch", "Int64"),
    "seconds": ("seconds", "float64"),
    "data_s": ("data_s", "float64"),
    "compute_s": ("compute_s", "float64"),
    "exposed_communication_s": ("exposed_communication_s", "float64"),
    "train_loss": ("loss", "float64"),
    "train_accuracy": ("accuracy", "float64"),
}
"""Column -> where it is in an entry of training.epochs: seconds of a worker, on average; what it learned."""

SHARD_COLUMNS: dict[str, tuple[str, str]] = {
    "rank": ("rank", "Int64"),
    "label": ("label", "Int64"),
    "count": ("count", "Int64"),
}
"""Of training.shards.label_counts: how often a label comes on a worker."""

GPU_COLUMNS: dict[str, tuple[str, str]] = {
    "node": ("node", "str"),
    "gpu": ("gpu", "Int64"),
    "utilisation_mean": ("utilisation_mean", "float64"),
    "memory_max_bytes": ("memory_max_bytes", "Int64"),
    "nvlink_sent_bytes": ("nvlink_sent_bytes", "Int64"),
    "nvlink_received_bytes": ("nvlink_received_bytes", "Int64"),
    "pcie_sent_bytes": ("pcie_sent_bytes", "Int64"),
    "pcie_received_bytes": ("pcie_received_bytes", "Int64"),
    "pcie_estimated": ("pcie_estimated", "boolean"),
}
"""Column -> where it is in an entry of gpus."""

BY_ETH0 = (
    *("sent_per_step_bytes", "busiest_sent_per_step_bytes", "train_sent_bytes"),
    *("total_sent_bytes", "pairs_interface_payload_bytes", "pairs_interface_header_bytes"),
)
"""Null where the exchange did not cross it, and so are the bytes of a curve."""
MAY_BE_NEGATIVE = ("error", "loss", "seed")
LEAST = {"workers": 1, "passes": 1, "epochs": 1, "batch_size": 1}
MOST = {"accuracy": 1, "workers": 65_536}
KNOWN_IN_THE_END = ("model_bytes", "steps", "rounds")
NEVER_NULL = (
    *("session", "run", "status", "strategy", "workers", "engine", "epoch", "sent_bytes"),
    *("node", "role"),
)
MAY_BE_MISSING = (
    *(*OPTIONS, "dataset", "communication_bound_s", "repeated_per_step_bytes"),
    *("control_sent_bytes", "control_bytes_per_second", "seconds", "consensus_distance"),
    *("pairs_interface_payload_bytes", "pairs_interface_header_bytes", "pairs_closed_connections"),
    *("burst_bytes", "full_lr", "label_skew", "data_s", "compute_s", "exposed_communication_s"),
)
"""In a run that is older than they are."""


@dataclass(frozen=True)
class Runs:
    table: pd.DataFrame
    """One row per run, numbered from 1."""
    curves: pd.DataFrame
    """One row per run and epoch; `number` is the run's row in the table."""
    nodes: pd.DataFrame
    """One row per run and node: its steps; none for a run that is older than seconds.by_node."""
    traffic: pd.DataFrame
    """One row per run and node, a launcher's own too: what it sent and received in training."""
    pairs: pd.DataFrame
    """One row per run and pair of nodes: payload of training, measured and predicted; none where nobody counted."""
    links: pd.DataFrame
    """One row per run and shaped link."""
    epochs: pd.DataFrame
    """One row per run and epoch: where its time went; none for a run that is older than training.epochs."""
    shards: pd.DataFrame
    """One row per run, worker and label."""
    gpus: pd.DataFrame
    """One row per run and GPU: what it did in training."""
    folders: dict[int, RunFolder]
    """By number."""

    @property
    def completed(self) -> pd.DataFrame:
        return self.table[self.table["status"] == "completed"]


@dataclass(frozen=True)
class _Read:
    """One run's row, and its parts by the name of the frame they go to."""

    row: dict[str, Any]
    parts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


WHERE = {
    "curves": "curve",
    "nodes": "by_node",
    "traffic": "bytes.nodes",
    "pairs": "peers.pairs",
    "links": "links",
    "epochs": "training.epochs",
    "shards": "training.shards",
    "gpus": "gpus",
}
PARTS = {
    "curves": CURVE_COLUMNS,
    "nodes": NODE_COLUMNS,
    "traffic": TRAFFIC_COLUMNS,
    "pairs": PAIR_COLUMNS,
    "links": LINK_COLUMNS,
    "epochs": EPOCH_COLUMNS,
    "shards": SHARD_COLUMNS,
    "gpus": GPU_COLUMNS,
}


def load_runs(folders: Iterable[RunFolder], *, live: bool = False) -> Runs:
    """`live`: of a run that has no summary yet, what can be said so far."""
    numbered = dict(enumerate(folders, start=1))
    runs = {number: _read(folder, live) for number, folder in numbered.items()}
    table = _frame([run.row for run in runs.values()], COLUMNS)
    table.index = pd.RangeIndex(1, len(runs) + 1, name="number")
    frames = {
        name: _frame(
            [
                {"number": number, **one}
                for number, run in runs.items()
                for one in run.parts.get(name, ())
            ],
            {"number": ("", "Int64"), **columns},
        )
        for name, columns in PARTS.items()
    }
    return Runs(table=table, folders=numbered, **frames)


def _training(training: Any) -> dict[str, Any]:
    """Null, or missing in an older run."""
    found = training if isinstance(training, dict) else {}
    shards = found.get("shards")
    counts = shards.get("label_counts") if isinstance(shards, dict) else None
    return {
        "epochs": found.get("epochs") or [],
        "shards": [
            {"rank": rank, "label": label, "count": count}
            for rank, of_worker in enumerate(counts if isinstance(counts, list) else [])
            for label, count in enumerate(of_worker if isinstance(of_worker, list) else [])
        ],
    }


def _frame(rows: list[dict[str, Any]], columns: dict[str, tuple[str, str]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            name: pd.Series([row.get(name) for row in rows], dtype=kind)
            for name, (_, kind) in columns.items()
        }
    )


def _read(folder: RunFolder, live: bool) -> _Read:
    path = folder.path.resolve()
    named = {"session": path.parent.name, "run": path.name}
    try:
        summary = _so_far(folder) if live and not folder.summary.exists() else folder.read_summary()
        if summary.get("schema") != SCHEMA:
            reason = (
                f"summary.json has schema {summary.get('schema')!r}, this report reads {SCHEMA}"
            )
            return _Read({**named, "status": "other schema", "error": reason})
        row = _pick(summary, COLUMNS)
        before_rules = {option: value for option, value in OFF.items() if row[option] is None}
        row |= before_rules
        entries = {
            "curves": summary.get("curve"),
            "nodes": (summary["seconds"] or {}).get("by_node", []),
            "traffic": (summary["bytes"] or {}).get("nodes", []),
            "pairs": (summary.get("peers") or {}).get("pairs", []),
            "links": summary.get("links", []),
            **_training(summary.get("training")),
            "gpus": summary.get("gpus", []),
        }
        for name, value in entries.items():
            if not isinstance(value, list):
                raise ValueError(f"{WHERE[name]} is {value!r}")
        parts = {name: _pick_all(name, entries[name]) for name in PARTS}
        _check(row, parts)
        if _went_another_way(row):
            row |= dict.fromkeys(BY_ETH0)
            parts["pairs"] = []
            parts["curves"] = [{**point, "sent_bytes": None} for point in parts["curves"]]
        return _Read(row, parts)
    except FileNotFoundError:
        reason = "no summary.json: the run is still going on, or was killed"
    except (OSError, ValueError, RecursionError) as error:
        reason = f"summary.json is cut off or damaged: {error}"
    return _Read({**named, "status": "damaged", "error": reason})


def _went_another_way(row: dict[str, Any]) -> bool:
    """GPUs of one host: eth0 did not see what they exchanged, and says nothing of what it cost."""
    return bool(
        row["gpu"] and row["sent_over_predicted"] is None and row["predicted_per_step_bytes"] != 0
    )


def _so_far(folder: RunFolder) -> dict[str, Any]:
    try:
        return summarise(folder, folder.read_experiment(), "running").to_json()
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"its events are not whole yet: {error!r}") from None


def _pick(document: Any, columns: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """The columns' values; ValueError for one that is missing or is not of its type."""
    picked = {}
    for name, (path, kind) in columns.items():
        value = document
        for key in path.split("."):
            if value is None and name not in NEVER_NULL:
                break
            if isinstance(value, dict) and key not in value and name in MAY_BE_MISSING:
                value = None
                break
            if not isinstance(value, dict) or key not in value:
                raise ValueError(f"it has no {path}")
            value = value[key]
        if not _fits(value, kind) and (value is not None or name in NEVER_NULL):
            raise ValueError(f"{path} is {value!r}")
        if not _can_be(name, value):
            raise ValueError(f"{path} is {value!r}, which cannot be")
        picked[name] = value
    return picked


def _pick_all(name: str, entries: list[Any]) -> list[dict[str, Any]]:
    try:
        return [_pick(one, PARTS[name]) for one in entries]
    except ValueError as error:
        raise ValueError(f"in {WHERE[name]}: {error}") from None


def _can_be(name: str, value: Any) -> bool:
    """Whether a number is one that a run can have: finite, not below 0 where it counts or measures."""
    if value is None or isinstance(value, bool | str):
        return True
    if not math.isfinite(value):
        return name == "loss"  # of a run that diverged
    return name in MAY_BE_NEGATIVE or LEAST.get(name, 0) <= value <= MOST.get(name, math.inf)


def _check(row: dict[str, Any], parts: dict[str, list[dict[str, Any]]]) -> None:
    """What a completed run has, and what no run has."""
    for name in KNOWN_IN_THE_END:
        if row["status"] == "completed" and row[name] is None:
            raise ValueError(f"{COLUMNS[name][0]} is None in a completed run")
    if row["status"] == "completed" and not row["steps"]:
        raise ValueError("steps is 0 in a completed run")
    for name in ("curves", "epochs"):
        epochs = [one["epoch"] for one in parts[name]]
        if len(set(epochs)) < len(epochs):
            raise ValueError(f"{WHERE[name]} has an epoch twice")


def _fits(value: Any, kind: str) -> bool:
    if isinstance(value, bool) or kind == "boolean":
        return isinstance(value, bool) and kind == "boolean"
    if kind == "Int64":
        return isinstance(value, int) and abs(value) < 2**63
    return isinstance(value, str if kind == "str" else (int, float))
