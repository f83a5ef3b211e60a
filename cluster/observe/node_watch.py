"""Which nodes of a run have ended and which have failed, by the events they write."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.event_reader import LOG_BYTES, EventReader
from cluster.spec.documents.events import End, Event, Failure, Hello
from cluster.spec.documents.node_files import plain_text

POLL_S = 0.05


class RunFailed(Exception):
    """A run ended badly; the message names the node and the cause."""


class NodeWatch:
    """Follows the event logs of some nodes (rank -> file), each of `most_bytes` at most."""

    def __init__(self, files: Mapping[int, Path], most_bytes: int = LOG_BYTES) -> None:
        self._files = files
        self._readers = {rank: EventReader(path, most_bytes) for rank, path in files.items()}
        self.ended: set[int] = set()
        self.failures: dict[int, Failure] = {}

    @property
    def remaining(self) -> list[int]:
        """Ranks of the nodes that have not ended."""
        return sorted(set(self._files) - self.ended)

    def read(self) -> list[tuple[int, Event]]:
        """New events of all nodes, with the rank that wrote them; RunFailed where one is none."""
        events = [(rank, event) for rank in self._files for event in self._read(rank)]
        for rank, event in events:
            if isinstance(event, End):
                self.ended.add(rank)
            elif isinstance(event, Failure):
                self.failures[rank] = replace(event, message=plain_text(event.message))
        return events

    def _read(self, rank: int) -> list[Event]:
        path = self._files[rank]
        try:
            events = self._readers[rank].read()
        except DocumentError as error:
            raise RunFailed(f"{path.stem} wrote no event log: {error}; see {path}") from None
        for hello in (event for event in events if isinstance(event, Hello)):
            if hello.rank != rank or hello.node not in ("", path.stem):
                claim = plain_text(f"{hello.node}, rank {hello.rank}", 50)
                raise RunFailed(f"{path.stem} claims to be {claim}; see {path}")
        return events
