"""Run folders -> tables. A run that cannot be read is a row that says why, never an error."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.summary.summarise import summarise
from analysis.tables.checks import check, read_checked
from analysis.tables.columns import COLUMNS, PARTS, ShardLabel, dtype, find, type_of
from cluster.spec.documents.codec import DocumentError, Options, OtherSchema, hints
from cluster.spec.documents.run_folder import RunFolder, find_runs
from cluster.spec.documents.summary import Summary

BY_ETH0 = (
    *("sent_per_step_bytes", "busiest_sent_per_step_bytes", "train_sent_bytes"),
    *("total_sent_bytes", "pairs_interface_payload_bytes", "pairs_interface_header_bytes"),
)
"""Null where the exchange did not cross eth0, and so are the bytes of a curve."""


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

    def named(self, frame: pd.DataFrame) -> pd.DataFrame:
        """One of these frames with session and run instead of a number."""
        names = self.table[["session", "run"]]
        return frame.merge(names, left_on="number", right_index=True).drop(columns="number")


@dataclass(frozen=True)
class _Read:
    """One run's row, and the entries of each frame."""

    row: Options
    parts: dict[str, list[Any]] = field(default_factory=dict)


def load_runs(runs: str | Path | Iterable[RunFolder] = "runs", *, live: bool = False) -> Runs:
    """All runs below a folder, or these. `live` summarises runs that have no summary yet."""
    if isinstance(runs, str | Path):
        if not Path(runs).is_dir():
            raise FileNotFoundError(f"no such folder: {runs}")
        runs = find_runs(Path(runs))
    numbered = dict(enumerate(runs, start=1))
    read = {number: _read(folder, live) for number, folder in numbered.items()}
    rows = [run.row for run in read.values()]
    columns = {
        name: pd.Series([row.get(name) for row in rows], dtype=dtype(type_of(key)))
        for name, key in COLUMNS.items()
    }
    table = pd.DataFrame(columns)
    table.index = pd.RangeIndex(1, len(read) + 1, name="number")
    return Runs(table=table, folders=numbered, **{name: _frame(name, read) for name in PARTS})


def _frame(name: str, read: dict[int, _Read]) -> pd.DataFrame:
    numbered = [(number, part) for number, run in read.items() for part in run.parts.get(name, ())]
    columns = {"number": pd.Series([number for number, _ in numbered], dtype="Int64")}
    for key, hint in hints(PARTS[name][1]).items():
        columns[key] = pd.Series([getattr(part, key) for _, part in numbered], dtype=dtype(hint))
    return pd.DataFrame(columns)


def _read(folder: RunFolder, live: bool) -> _Read:
    path, status = folder.path.resolve(), "damaged"
    try:
        if folder.summary.exists():
            return _tabulate(read_checked(folder))
        return _tabulate(_so_far(folder, live))
    except _UnfinishedRun as error:
        status, reason = "unfinished", str(error)
    except OtherSchema as error:
        status, reason = "other schema", str(error)
    except (OSError, ValueError) as error:
        reason = str(error)
    named: Options = {"session": path.parent.name, "run": path.name}
    return _Read(named | {"status": status, "error": reason})


class _UnfinishedRun(Exception):
    """A run without a summary, whose other files are whole."""


def _so_far(folder: RunFolder, live: bool) -> Summary:
    """The summary of a run that has none yet. DocumentError names the file that is damaged."""
    try:
        experiment = folder.read_experiment()
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"spec.json: {error}") from None
    if not live:
        folder.read_links()
        for rank in range(experiment.nodes):
            folder.read_events(rank)
        raise _UnfinishedRun("no summary.json: the run is still going on, or was killed")
    try:
        summary = summarise(folder, experiment, "running")
    except (KeyError, IndexError, TypeError) as error:
        raise _UnfinishedRun(f"its events are not whole yet: {error!r}") from None
    check(summary)
    return summary


def _tabulate(summary: Summary) -> _Read:
    row: Options = {}
    for name, key in COLUMNS.items():
        is_option = key.startswith("spec.")
        row[name] = summary.spec.get(name) if is_option else find(summary, key)
    parts = {name: find(summary, key) or [] for name, (key, _) in PARTS.items()}
    parts["shards"] = [
        ShardLabel(rank=rank, label=label, count=count)
        for rank, counts in enumerate(parts["shards"])
        for label, count in enumerate(counts)
    ]
    if _went_another_way(row):
        row |= dict.fromkeys(BY_ETH0)
        parts["pairs"] = []
        parts["curves"] = [dataclasses.replace(p, sent_bytes=None) for p in parts["curves"]]
    return _Read(row, parts)


def _went_another_way(row: Options) -> bool:
    """GPUs of one host: eth0 did not see what they exchanged, and does not know what it cost."""
    return bool(
        row["gpu"] and row["sent_over_predicted"] is None and row["predicted_per_step_bytes"] != 0
    )
