"""The only place that knows the file names in a run. Standard library only.

runs/<session>/<run>/ has these and events/node<k>.jsonl, logs/node<k>.log (docs/run-folder.md).
"""

from __future__ import annotations

import io
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short
from typing import TypeVar

from cluster.spec.continuing import STATE_FOLDER
from cluster.spec.documents import schema1
from cluster.spec.documents.codec import (
    SCHEMA,
    Document,
    DocumentError,
    Json,
    Options,
    OtherSchema,
    from_json,
    parse_json,
)
from cluster.spec.documents.environment import Environment
from cluster.spec.documents.event_reader import LOG_BYTES, read_events
from cluster.spec.documents.events import Event
from cluster.spec.documents.links import Links, MeasuredLink
from cluster.spec.documents.membership import Membership
from cluster.spec.documents.node_files import NodeFiles, open_regular, read_piece
from cluster.spec.documents.records import GpuSample, HostSample, Sample
from cluster.spec.documents.summary import Summary
from cluster.spec.experiment import Experiment, node_name

D = TypeVar("D", bound=Document)
R = TypeVar("R")

DOCUMENT_BYTES = 24 << 20
"""Of a JSON document: the summary of 256 nodes that all exchange with each other has 14 MB."""

__all__ = ["RunFolder", "find_runs", "new_session", "node_name", "write_json"]


class _File:
    """A file of the run folder: folder.spec is the path of spec.json."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __get__(self, folder: RunFolder, _: type) -> Path:
        return folder.path.joinpath(*self._parts)


@dataclass(frozen=True)
class RunFolder:
    path: Path

    spec = _File("spec.json")
    """Written last before the start: its arrival says "go"."""
    summary = _File("summary.json")
    environment = _File("environment.json")
    compose = _File("compose.yml")
    """Docker only; `docker compose -f ... up` repeats the run."""
    links = _File("links.json")
    samples = _File("samples.csv")
    gpu_samples = _File("gpu_samples.csv")
    host = _File("host.csv")
    model = _File("model", "consensus.pt")
    timeline = _File("logs", "timeline.json")
    host_events = _File("events", "host.jsonl")
    """What the host did to nodes and found of them; only where there are faults, or after one."""
    membership = _File("membership.json")
    """With --on-failure continue only: the host writes it, and nodes follow it."""
    stack_request = _File("stacks-requested")
    """Its presence asks every node for its stacks; it is removed when the run ends."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def session(self) -> str:
        return self.path.parent.name

    def events(self, rank: int) -> Path:
        return self.events_of(node_name(rank))

    def events_of(self, node: str) -> Path:
        return self.path / "events" / f"{node}.jsonl"

    def log(self, rank: int) -> Path:
        return self.log_of(node_name(rank))

    def log_of(self, node: str) -> Path:
        return self.path / "logs" / f"{node}.log"

    def heartbeat_of(self, node: str) -> Path:
        return self.path / "events" / f"{node}.heartbeat"

    def files_of(self, node: str) -> NodeFiles:
        """What a node writes."""
        paths = self.events_of(node), self.log_of(node), self.heartbeat_of(node)
        state = self.path / STATE_FOLDER / f"{node}.pt"
        return NodeFiles(*paths, self.model, self.timeline, self.work_of(node), state)

    def work_of(self, node: str) -> Path:
        """What a program left in its working folder; only the user reads it."""
        return self.path / "work" / node

    def node_folders(self) -> list[Path]:
        """The folders with files that nodes write; everything else belongs to the host."""
        return [self.path / name for name in ("events", "logs", "model")]

    def create(self) -> RunFolder:
        for folder in self.node_folders():
            folder.mkdir(parents=True)
        return self

    def read_experiment(self) -> Experiment:
        """SpecError for what is no spec."""
        return Experiment.parse(read_piece(self.spec, 0, DOCUMENT_BYTES))

    def read_spec(self) -> Options:
        """The options as they were recorded, by any version; read_experiment also checks them."""
        document = _read_object(self.spec)
        try:
            return from_json(Options, document)
        except DocumentError as error:
            raise DocumentError(f"{self.spec.name}: {error}") from None

    def read_summary(self) -> Summary:
        return read_document(self.summary, Summary, schema1.upgrade_summary)

    def read_membership(self) -> Membership:
        """Empty without --on-failure continue."""
        if not self.membership.exists():
            return Membership()
        return read_document(self.membership, Membership)

    def read_environment(self) -> Environment:
        return read_document(self.environment, Environment, schema1.upgrade_environment)

    def read_links(self) -> list[MeasuredLink]:
        """Empty where no link was shaped."""
        if not self.links.exists():
            return []
        return read_document(self.links, Links, schema1.upgrade_links).links

    def read_events(self, rank: int, most_bytes: int = LOG_BYTES) -> list[Event]:
        """All whole lines; a line cut off by a crash is left out."""
        return list(read_events(self.events(rank), most_bytes))

    def read_host_events(self) -> list[Event]:
        """Empty where nothing happened to any node."""
        return list(read_events(self.host_events))

    def read_samples(self) -> Iterator[Sample]:
        """All whole lines, as with events."""
        return _read_rows(self.samples, Sample.from_row)

    def read_gpu_samples(self) -> Iterator[GpuSample]:
        """None where nobody has a GPU."""
        return _read_rows(self.gpu_samples, GpuSample.from_row)

    def read_host_samples(self) -> Iterator[HostSample]:
        """None where the nodes are on other hosts, or the host does not tell."""
        return _read_rows(self.host, HostSample.from_row)


def _read_rows(path: Path, parse: Callable[[list[str]], R]) -> Iterator[R]:
    """DocumentError names the file and the line."""
    try:
        opened = open_regular(path)
    except FileNotFoundError:
        return
    with io.TextIOWrapper(opened, encoding="utf-8", errors="replace") as file:
        columns = next(file, "").count(",")
        for number, line in enumerate(file, start=2):
            if not line.endswith("\n"):
                return
            try:
                if line.count(",") != columns:
                    raise ValueError(f"must have {columns + 1} columns")
                row = parse(line.rstrip("\n").split(","))
            except (TypeError, ValueError) as error:
                raise DocumentError(f"{path.name}: line {number}: {error}") from None
            yield row


def read_document(path: Path, kind: type[D], upgrade: Callable[[Json], Json] | None = None) -> D:
    """A document of this schema or an older one; DocumentError names the file and the key."""
    document = _read_object(path)
    try:
        document = upgrade(document) if upgrade else document
        found = document.get("schema")
        if found != SCHEMA:
            told = f"{path.name} has schema {short(found)}, this version reads 1 and {SCHEMA}"
            raise OtherSchema(told)
        return kind.from_json(document)
    except OtherSchema:
        raise
    except (DocumentError, RecursionError) as error:
        raise DocumentError(f"{path.name}: {error}") from None


def _read_object(path: Path) -> Json:
    text = read_piece(path, 0, DOCUMENT_BYTES + 1)
    if len(text) > DOCUMENT_BYTES:
        raise DocumentError(f"{path.name} has more than {DOCUMENT_BYTES:,} bytes")
    try:
        document = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{path.name} is cut off or damaged: {error}") from None
    if not isinstance(document, dict):
        raise DocumentError(f"{path.name} must be an object, not {short(document)}")
    return document


def write_json(path: Path, document: Document | Json) -> None:
    if isinstance(document, Document):
        document = document.to_json()
    write_at_once(path, json.dumps(document, indent=1, allow_nan=False) + "\n")


def write_at_once(path: Path, text: str) -> None:
    """A reader sees the old file or the new one, never half."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def new_session(output: Path) -> Path:
    """A folder of its own, also for many calls in the same second."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    while True:
        session = output / f"{stamp}-{secrets.token_hex(2)}"
        try:
            session.mkdir(parents=True)
        except FileExistsError:
            if not session.is_dir():
                raise
        else:
            return session


def find_runs(output: Path) -> list[RunFolder]:
    """Every run below a runs/ folder, a session or a run itself, in order of time.

    A folder that cannot be opened may be one: whoever reads it says why it cannot.
    """
    found, closed = set(), []
    for path, folders, files in os.walk(output, onerror=lambda e: closed.append(e.filename)):
        if not {"spec.json", "summary.json"}.isdisjoint((*folders, *files)):
            found.add(Path(path))
            folders.clear()  # nothing that a run holds is a run
    found |= {Path(path) for path in closed if os.path.isdir(path)}
    return [RunFolder(path) for path in sorted(found)]
