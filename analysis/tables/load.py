"""Run folders -> tables. A run that cannot be read is a row that says why, never an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import pandas as pd

from analysis.summary.summarise import summarise
from cluster.spec.documents.codec import (
    Document,
    DocumentError,
    Options,
    OtherSchema,
    hints,
    reader,
)
from cluster.spec.documents.links import MeasuredLink
from cluster.spec.documents.summary import (
    CurvePoint,
    EpochCourse,
    GpuUse,
    NodeSeconds,
    NodeTraffic,
    PairTraffic,
    Summary,
)
from cluster.spec.experiment import Experiment
from cluster.spec.run_folder import RunFolder, find_runs

OWN_COLUMNS = ("strategy", "workers", "passes", "schedule", "engine", "dataset")
WATCHING = ("interval", "timeline")
"""How a run was watched, not what it was."""

OPTIONS = {
    name: hint
    for name, hint in sorted(hints(Experiment).items(), key=lambda item: item[0] == "seed")
    if name not in (*OWN_COLUMNS, *WATCHING)
}
"""What runs may differ in beside strategy and workers, with its type; the seed comes last."""

COLUMNS = {
    **{name: name for name in ("session", "run", "status", "error")},
    **{name: f"spec.{name}" for name in ("strategy", "workers", "passes", "schedule")},
    **{name: f"spec.{name}" for name in OPTIONS},
    **{name: f"spec.{name}" for name in ("engine", "dataset")},
    **{name: name for name in ("accuracy", "loss", "consensus_distance")},
    **{name: name for name in ("model_bytes", "steps", "rounds")},
    "sent_per_step_bytes": "per_step.sent_mean_bytes",
    "predicted_per_step_bytes": "per_step.predicted_mean_bytes",
    "sent_over_predicted": "per_step.ratio",
    "busiest_sent_per_step_bytes": "per_step.sent_max_bytes",
    "busiest_predicted_per_step_bytes": "per_step.predicted_max_bytes",
    "retransmitted_per_step_bytes": "per_step.retransmitted_mean_bytes",
    "train_sent_bytes": "bytes.train.sent_bytes",
    "train_received_bytes": "bytes.train.received_bytes",
    "total_sent_bytes": "bytes.total.sent_bytes",
    "network_activity_sum": "network_activity_sum",
    "full_lr": "training.learning_rate.full",
    "label_skew": "training.shards.label_skew",
    "control_sent_bytes": "control_traffic.sent_mean_bytes",
    "control_bytes_per_second": "control_traffic.bytes_per_s",
    "pairs_interface_payload_bytes": "traffic_matrix.interfaces.payload_bytes",
    "pairs_interface_header_bytes": "traffic_matrix.interfaces.header_bytes",
    "pairs_closed_connections": "traffic_matrix.closed_connections",
    **{
        f"counter_{name}_bytes": f"counters.{name}_bytes" for name in ("worker", "kernel", "docker")
    },
    "counters_largest_difference": "counters.largest_difference",
    **{
        name: f"seconds.{name}"
        for name in (
            *("step_median_s", "compute_median_s", "exposed_communication_median_s"),
            *("communication_bound_s", "train_s", "total_s"),
        )
    },
}
"""Column -> its key in summary.json (docs/run-folder.md). Fractions are of 1."""


@dataclass(frozen=True)
class Shard(Document):
    """How often a label occurs on a worker."""

    rank: int
    label: int
    count: int


PARTS: dict[str, tuple[str, type[Document]]] = {
    "curves": ("curve", CurvePoint),
    "nodes": ("seconds.by_node", NodeSeconds),
    "traffic": ("bytes.nodes", NodeTraffic),
    "pairs": ("traffic_matrix.pairs", PairTraffic),
    "links": ("links", MeasuredLink),
    "epochs": ("training.epochs", EpochCourse),
    "gpus": ("gpus", GpuUse),
    "shards": ("training.shards.label_counts", Shard),
}
"""Frame of Runs -> the list of summary.json that it holds; its columns are the keys of an entry."""

BY_ETH0 = (
    *("sent_per_step_bytes", "busiest_sent_per_step_bytes", "train_sent_bytes"),
    *("total_sent_bytes", "pairs_interface_payload_bytes", "pairs_interface_header_bytes"),
)
"""Null where the exchange did not cross eth0, and so are the bytes of a curve."""
NEEDED = ("strategy", "workers", "engine")
POSITIVE = ("workers", "passes", "epochs", "batch_size")
MOST_WORKERS = 65_536


@dataclass(frozen=True)
class Runs:
    table: pd.DataFrame
    """One row per run, numbered from 1."""
    curves: pd.DataFrame
    """One row per run and epoch; `number` is the run's row in the table."""
    nodes: pd.DataFrame
    """One row per run and node: its steps; none for a run that is older than seconds.by_node."""
    traffic: pd.DataFrame
    """One row per run and node, auxiliary services too: what it sent and received."""
    pairs: pd.DataFrame
    """One row per run and pair of nodes: payload of training, measured and predicted."""
    links: pd.DataFrame
    """One row per run and shaped link."""
    epochs: pd.DataFrame
    """One row per run and epoch: where its time went; none for a run older than training.epochs."""
    shards: pd.DataFrame
    """One row per run, worker and label."""
    gpus: pd.DataFrame
    """One row per run and GPU: its use in training."""
    folders: dict[int, RunFolder]
    """By number."""

    @property
    def completed(self) -> pd.DataFrame:
        return self.table[self.table["status"] == "completed"]


@dataclass(frozen=True)
class _Read:
    """One run's row, and the entries of each frame."""

    row: Options
    parts: dict[str, list[Any]] = field(default_factory=dict)


def load_runs(runs: str | Path | Iterable[RunFolder] = "runs", *, live: bool = False) -> Runs:
    """All runs below a folder, or these. `live` includes runs that have no summary yet, as far as they are."""
    folders = find_runs(Path(runs)) if isinstance(runs, str | Path) else runs
    numbered = dict(enumerate(folders, start=1))
    read = {number: _read(folder, live) for number, folder in numbered.items()}
    columns = {
        name: pd.Series([run.row.get(name) for run in read.values()], dtype=_dtype(_hint(key)))
        for name, key in COLUMNS.items()
    }
    table = pd.DataFrame(columns)
    table.index = pd.RangeIndex(1, len(read) + 1, name="number")
    frames = {name: _frame(name, kind, read) for name, (_, kind) in PARTS.items()}
    return Runs(table=table, folders=numbered, **frames)


def _frame(name: str, kind: type[Document], read: dict[int, _Read]) -> pd.DataFrame:
    numbered = [
        (number, entry) for number, run in read.items() for entry in run.parts.get(name, ())
    ]
    columns = {"number": pd.Series([number for number, _ in numbered], dtype="Int64")}
    for key, hint in hints(kind).items():
        values = [getattr(entry, key) for _, entry in numbered]
        columns[key] = pd.Series(values, dtype=_dtype(hint))
    return pd.DataFrame(columns)


def _dtype(hint: Any) -> str:
    """Of a type that may be null, too."""
    for kind in get_args(hint) if get_origin(hint) is not Annotated else ():
        if kind is not NoneType:
            return _dtype(kind)
    plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return {int: "Int64", float: "float64", bool: "boolean", str: "str"}[plain]


def _hint(key: str) -> Any:
    """The type of a key of summary.json."""
    first, _, rest = key.partition(".")
    hint: Any = Experiment if first == "spec" else hints(Summary)[first]
    for name in rest.split(".") if rest else ():
        (kind,) = [each for each in get_args(hint) or (hint,) if each is not NoneType]
        hint = hints(kind)[name]
    return hint


def _read(folder: RunFolder, live: bool) -> _Read:
    path = folder.path.resolve()
    status = "damaged"
    try:
        summary = _so_far(folder) if live and not folder.summary.exists() else folder.read_summary()
        _check(summary)
        return _tabulate(summary)
    except FileNotFoundError:
        reason = "no summary.json: the run is still going on, or was killed"
    except OtherSchema as error:
        status, reason = "other schema", str(error)
    except DocumentError as error:
        reason = str(error)
    except (OSError, ValueError, RecursionError) as error:
        reason = f"summary.json is cut off or damaged: {error}"
    return _Read({"session": path.parent.name, "run": path.name, "status": status, "error": reason})


def _so_far(folder: RunFolder) -> Summary:
    try:
        return summarise(folder, folder.read_experiment(), "running")
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"its events are not whole yet: {error!r}") from None


def _check(summary: Summary) -> None:
    """What a completed run has, and what no run has."""
    for name in ("model_bytes", "steps", "rounds"):
        if summary.status == "completed" and getattr(summary, name) is None:
            raise DocumentError("is null in a completed run", f"summary.json: {name}")
    if summary.status == "completed" and not summary.steps:
        raise DocumentError("is 0 in a completed run", "summary.json: steps")
    for key, epochs in (
        ("curve", [point.epoch for point in summary.curve]),
        ("training.epochs", [each.epoch for each in _find(summary, "training.epochs") or ()]),
    ):
        if len(set(epochs)) < len(epochs):
            raise DocumentError("has an epoch twice", f"summary.json: {key}")


def _tabulate(summary: Summary) -> _Read:
    options = {name: _option(summary.spec, name) for name in (*OWN_COLUMNS, *OPTIONS)}
    row = {
        name: options[name] if key.startswith("spec.") else _find(summary, key)
        for name, key in COLUMNS.items()
    }
    parts: dict[str, list[Any]] = {
        name: _find(summary, key) or [] for name, (key, _) in PARTS.items()
    }
    parts["shards"] = [
        Shard(rank, label, count)
        for rank, counts in enumerate(parts["shards"])
        for label, count in enumerate(counts)
    ]
    if _went_another_way(row):
        row |= dict.fromkeys(BY_ETH0)
        parts["pairs"] = []
        parts["curves"] = [dataclasses.replace(p, sent_bytes=None) for p in parts["curves"]]
    return _Read(row, parts)


def _find(summary: Summary, key: str) -> Any:
    """Null where a part on the way is."""
    value: Any = summary
    for name in key.split("."):
        value = getattr(value, name, None)
    return value


def _option(spec: Options, name: str) -> Any:
    """Null in a run that is older than the option."""
    value = spec.get(name)
    try:
        if value is None and name not in NEEDED:
            return None
        value = reader(hints(Experiment)[name])(value)
        low, high = int(name in POSITIVE), MOST_WORKERS if name == "workers" else 2**63
        if isinstance(value, int | float) and not low <= value <= high:
            raise DocumentError(f"must be between {low} and {high:,}, not {value!r}")
    except DocumentError as error:
        raise error.below(f"summary.json: spec.{name}") from None
    return value


def _went_another_way(row: Options) -> bool:
    """GPUs of one host: eth0 did not see what they exchanged, and does not know what it cost."""
    return bool(
        row["gpu"] and row["sent_over_predicted"] is None and row["predicted_per_step_bytes"] != 0
    )
