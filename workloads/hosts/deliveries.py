"""What hosts send, stored in the folder of the run that is on: events, heartbeats, logs, the model.

Whatever a host sends, only its own files are written, and they have limits.
"""

import contextlib
import threading
from pathlib import Path

from cluster.spec.documents.heartbeat import RECORD_BYTES
from cluster.spec.documents.run_folder import RunFolder, node_name

EVENTS_BYTES = 1 << 30
"""The most that the event log of a node may hold."""
LOG_BYTES = 4 << 20
MODEL_BYTES = 16 << 30


class TooLarge(Exception):
    """More than a file may hold."""


class Deliveries:
    """Of one run after the other; `run` is the current one."""

    def __init__(self) -> None:
        self.run: RunFolder | None = None
        self._lock = threading.Lock()

    def begin(self, run: RunFolder) -> None:
        self.run = run
        self._unfinished_model(run).unlink(missing_ok=True)

    def most_bytes(self, kind: str) -> int | None:
        """None for a kind that there is not."""
        most = {
            "events": EVENTS_BYTES,
            "heartbeat": RECORD_BYTES,
            "log": LOG_BYTES,
            "model": MODEL_BYTES,
        }
        return most.get(kind)

    def store(self, kind: str, rank: int, body: bytes) -> None:
        """TooLarge where a file would be; nothing where no run is on."""
        run, node = self.run, node_name(rank)
        most = self.most_bytes(kind)
        if run is None or most is None:
            return
        if kind == "heartbeat":
            self._check(len(body), most)
            # Overwritten, as the node does: a reader sees a record of fixed size.
            with contextlib.suppress(FileNotFoundError):
                run.heartbeat_of(node).write_bytes(body.ljust(RECORD_BYTES))
        elif kind == "model":
            self._append(self._unfinished_model(run), body, most)
        else:
            self._append(run.events_of(node) if kind == "events" else run.log_of(node), body, most)

    def finish_model(self) -> None:
        """All pieces are there: the model gets its name."""
        if self.run is not None and (unfinished := self._unfinished_model(self.run)).exists():
            unfinished.replace(self.run.model)

    @staticmethod
    def _unfinished_model(run: RunFolder) -> Path:
        return run.model.with_name(f".{run.model.name}.arriving")

    def _append(self, path: Path, body: bytes, most: int) -> None:
        """All of a piece or nothing: another attempt of the same task may send meanwhile."""
        with self._lock, path.open("ab") as file:
            self._check(file.tell() + len(body), most)
            file.write(body)

    @staticmethod
    def _check(size_bytes: int, most: int) -> None:
        if size_bytes > most:
            raise TooLarge
