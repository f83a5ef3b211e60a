"""Run folders -> tables. All that a report needs of a run is read and checked here, once.

A run that cannot be read is a row that says why, never an error: nothing else opens its files.
"""

import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from analysis.summary.summarise import summarise
from analysis.tables.checks import check, read_checked
from analysis.tables.columns import COLUMNS, PARTS, ShardLabel, WorkerScore, dtype, find, type_of
from analysis.tables.rates import Rates, read_rates
from analysis.tables.steps import no_steps, read_steps
from cluster.spec.documents.codec import DocumentError, Options, OtherSchema, hints, to_json
from cluster.spec.documents.environment import Environment
from cluster.spec.documents.event_reader import read_events
from cluster.spec.documents.run_folder import RunFolder, find_runs
from cluster.spec.documents.summary import Summary
from cluster.spec.program import ISOLATED

BY_ETH0 = (
    *("sent_per_step_bytes", "busiest_sent_per_step_bytes", "train_sent_bytes"),
    "train_payload_bytes",
    *("total_sent_bytes", "pairs_interface_payload_bytes", "pairs_interface_header_bytes"),
)
"""Null where the exchange did not cross eth0, and so are the bytes of a curve."""
LONGEST_REASON = 400
T = TypeVar("T")


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
    scores: pd.DataFrame
    """One row per run and worker: accuracy of its own model."""
    gpus: pd.DataFrame
    """One row per run and GPU: its use in training."""
    progress: pd.DataFrame
    """One row per run without a barrier and worker: how far it came."""
    faults: pd.DataFrame
    """One row per run and fault that happened."""
    arrivals: pd.DataFrame
    """One row per run and worker: how often it came last to exchanges, and why."""
    steps: pd.DataFrame
    """One row per completed run, worker and step, thinned out where a run has many."""
    folders: dict[int, RunFolder]
    """By number."""
    specs: dict[int, Options]
    """By number, the options of a run."""
    environments: dict[int, Environment]
    """By number, of the runs that recorded it."""
    rates: dict[int, Rates]
    """By number, of the completed runs that have samples."""

    @property
    def completed(self) -> pd.DataFrame:
        return self.table[self.table["status"] == "completed"]

    def named(self, frame: pd.DataFrame) -> pd.DataFrame:
        """One of these frames with session and run instead of a number."""
        names = self.table[["session", "run"]]
        return frame.merge(names, left_on="number", right_index=True).drop(columns="number")


@dataclass(frozen=True)
class _Read:
    """One run's row, the entries of each frame, and what else was recorded."""

    row: Options
    parts: dict[str, list[Any]] = field(default_factory=dict)
    spec: Options | None = None
    environment: Environment | None = None
    rates: Rates | None = None
    steps: pd.DataFrame | None = None


def load_runs(runs: str | Path | Iterable[RunFolder] = "runs", *, live: bool = False) -> Runs:
    """All runs below a folder, or these. `live` summarises runs that have no summary yet."""
    if isinstance(runs, str | Path):
        if not Path(runs).is_dir():
            raise FileNotFoundError(f"no such folder: {runs}")
        runs = find_runs(Path(runs))
    numbered = dict(enumerate(runs, start=1))
    read = {number: _read(folder, number, live) for number, folder in numbered.items()}
    rows = [run.row for run in read.values()]
    columns = {
        name: pd.Series([row.get(name) for row in rows], dtype=dtype(type_of(key)))
        for name, key in COLUMNS.items()
    }
    table = pd.DataFrame(columns)
    table.index = pd.RangeIndex(1, len(read) + 1, name="number")
    return Runs(
        table=table,
        folders=numbered,
        specs={number: run.spec for number, run in read.items() if run.spec},
        environments={number: run.environment for number, run in read.items() if run.environment},
        rates={number: run.rates for number, run in read.items() if run.rates},
        steps=_joined([run.steps for run in read.values() if run.steps is not None]),
        **{name: _frame(name, read) for name in PARTS},
    )


def _frame(name: str, read: dict[int, _Read]) -> pd.DataFrame:
    numbered = [(number, part) for number, run in read.items() for part in run.parts.get(name, ())]
    columns = {"number": pd.Series([number for number, _ in numbered], dtype="Int64")}
    for key, hint in hints(PARTS[name][1]).items():
        columns[key] = pd.Series([getattr(part, key) for _, part in numbered], dtype=dtype(hint))
    return pd.DataFrame(columns)


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    known = [frame for frame in frames if len(frame)]
    return pd.concat(known, ignore_index=True) if known else no_steps()


def _read(folder: RunFolder, number: int, live: bool) -> _Read:
    """Whatever its files hold. Where only a file beside the summary is damaged, its numbers too."""
    path = folder.path.resolve()
    names: Options = {"session": str(to_json(path.parent.name)), "run": str(to_json(path.name))}
    found = _Read(names)
    try:
        found = _tabulate(_summary(folder, live))
        rates = steps = None
        if found.row["status"] == "completed":
            dilation = float(found.row["dilation"] or 1)
            rates = None if found.row["virtual"] else read_rates(folder, dilation)
            workers, count = (int(found.row[name] or 0) for name in ("workers", "steps"))
            virtual = bool(found.row["virtual"])
            steps = read_steps(folder, number, workers, count, dilation, virtual=virtual)
        _unless_missing(folder.read_spec)
        environment = _unless_missing(folder.read_environment)
        return dataclasses.replace(found, environment=environment, rates=rates, steps=steps)
    except OtherSchema as error:
        status, reason = "other schema", str(error)
    except OSError as error:
        status = "damaged"
        reason = f"{Path(error.filename or folder.path).name}: {error.strerror or error}"
    except DocumentError as error:
        status, reason = "damaged", str(error)
    except Exception as error:  # no run ends the report of the others
        status, reason = "damaged", f"{type(error).__name__}: {error}"
    told = str(to_json(reason))[:LONGEST_REASON]
    return dataclasses.replace(found, row=found.row | names | {"status": status, "error": told})


def _unless_missing(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except FileNotFoundError:
        return None


def _summary(folder: RunFolder, live: bool) -> Summary:
    """Of a run that has none yet: what is known so far."""
    with contextlib.suppress(FileNotFoundError):
        return read_checked(folder)
    try:
        experiment = folder.read_experiment()
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"spec.json: {error}") from None
    if live:
        summary = summarise(folder, experiment, "running")
        check(summary)
        return summary
    folder.read_links()
    for rank in range(experiment.started_nodes):
        deque(read_events(folder.events(rank)), maxlen=0)
    return Summary(
        session=folder.path.resolve().parent.name,
        run=folder.path.resolve().name,
        status="unfinished",
        error="no summary.json: the run is still going on, or was killed",
        spec=experiment.to_json(),
    )


def _tabulate(summary: Summary) -> _Read:
    row: Options = {}
    for name, key in COLUMNS.items():
        is_option = key.startswith("spec.")
        row[name] = summary.spec.get(name) if is_option else find(summary, key)
    if not isinstance(row["dilation"], float | int):  # a run older than this option
        row["dilation"] = 1.0
    row["network"] = row["network"] or ISOLATED
    parts = {name: find(summary, key) or [] for name, (key, _) in PARTS.items()}
    parts["shards"] = [
        ShardLabel(rank=rank, label=label, count=count)
        for rank, counts in enumerate(parts["shards"])
        for label, count in enumerate(counts)
    ]
    parts["scores"] = [
        WorkerScore(rank=rank, accuracy=accuracy) for rank, accuracy in enumerate(parts["scores"])
    ]
    if row["train_payload_bytes"] is None:  # a run older than this key
        row["train_payload_bytes"] = row["pairs_interface_payload_bytes"] or row["train_sent_bytes"]
    if _went_another_way(row):
        row |= dict.fromkeys(BY_ETH0)
        parts["pairs"] = []
        parts["curves"] = [dataclasses.replace(p, sent_bytes=None) for p in parts["curves"]]
    return _Read(row, parts, summary.spec)


def _went_another_way(row: Options) -> bool:
    """GPUs of one host: eth0 did not see what they exchanged, and does not know what it cost."""
    return bool(
        row["gpu"] and row["sent_over_predicted"] is None and row["predicted_per_step_bytes"] != 0
    )
