"""The only place that knows the file names in a run. Standard library only.

runs/<session>/<run>/spec.json           written last before the start: its arrival says "go"
                     compose.yml         Docker only; `docker compose -f ... up` repeats the run
                     events/node<k>.jsonl  samples.csv  logs/node<k>.log  model/consensus.pt
                     environment.json    summary.json    links.json where links are shaped
                     gpu_samples.csv     where nodes have GPUs
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.spec.experiment import Experiment, node_name
from cluster.spec.records import GpuSample, Sample

__all__ = ["RunFolder", "find_runs", "new_session", "node_name", "write_json"]


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def session(self) -> str:
        return self.path.parent.name

    @property
    def spec(self) -> Path:
        return self.path / "spec.json"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def environment(self) -> Path:
        return self.path / "environment.json"

    @property
    def compose(self) -> Path:
        return self.path / "compose.yml"

    @property
    def links(self) -> Path:
        return self.path / "links.json"

    @property
    def samples(self) -> Path:
        return self.path / "samples.csv"

    @property
    def gpu_samples(self) -> Path:
        return self.path / "gpu_samples.csv"

    @property
    def model(self) -> Path:
        return self.path / "model" / "consensus.pt"

    @property
    def timeline(self) -> Path:
        return self.path / "logs" / "timeline.json"

    def events(self, rank: int) -> Path:
        return self.events_of(node_name(rank))

    def events_of(self, node: str) -> Path:
        return self.path / "events" / f"{node}.jsonl"

    def log(self, rank: int) -> Path:
        return self.log_of(node_name(rank))

    def log_of(self, node: str) -> Path:
        return self.path / "logs" / f"{node}.log"

    def node_folders(self) -> list[Path]:
        """The folders that nodes write to; everything else belongs to the host."""
        return [self.path / name for name in ("events", "logs", "model")]

    def create(self) -> RunFolder:
        for folder in self.node_folders():
            folder.mkdir(parents=True)
        return self

    def read_experiment(self) -> Experiment:
        return Experiment.from_json(json.loads(self.spec.read_text()))

    def read_summary(self) -> dict[str, Any]:
        document = json.loads(self.summary.read_text())
        if not isinstance(document, dict):
            raise ValueError(f"{self.summary} holds no JSON object")
        return document

    def read_links(self) -> list[dict[str, Any]]:
        """The entries of the summary's `links`; none where no link was shaped."""
        try:
            links: list[dict[str, Any]] = json.loads(self.links.read_text())["links"]
        except FileNotFoundError:
            return []
        return links

    def read_events(self, rank: int) -> list[dict[str, Any]]:
        """All whole lines; a line cut off by a crash is left out."""
        try:
            lines = self.events(rank).read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines[:-1] if line]

    def read_samples(self) -> Iterator[Sample]:
        """All whole lines, as with events."""
        return map(Sample.from_row, _whole_rows(self.samples))

    def read_gpu_samples(self) -> Iterator[GpuSample]:
        """None where nobody has a GPU."""
        return map(GpuSample.from_row, _whole_rows(self.gpu_samples))


def _whole_rows(path: Path) -> Iterator[list[str]]:
    if not path.exists():
        return
    with path.open() as file:
        next(file, None)
        for line in file:
            if line.endswith("\n"):
                yield line.rstrip("\n").split(",")


def write_json(path: Path, document: dict[str, Any]) -> None:
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
    """Every run below a runs/ folder, a session or a run itself, in order of time."""
    found = {path.parent for path in output.glob("**/spec.json")}
    found |= {path.parent for path in output.glob("**/summary.json")}
    return [RunFolder(path) for path in sorted(found)]
