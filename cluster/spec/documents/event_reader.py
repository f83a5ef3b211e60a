"""Event logs, read in bounded pieces: a node can write anything. Standard library only."""

from collections.abc import Iterator
from pathlib import Path

from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.events import Event, parse_event
from cluster.spec.documents.node_files import plain_text, read_piece
from cluster.spec.experiment import Experiment
from cluster.spec.faults.checks import CONTINUE

LINE_BYTES = 1 << 20
"""Of one event; the largest that nodes write lists the connections to a thousand others."""
LOG_BYTES = 1 << 28
"""Of an event log of unknown origin."""


def most_bytes(experiment: Experiment) -> int:
    """Of one node's event log: 4 MiB, and three times what an honest node writes.

    How many steps a program makes is not known before."""
    if experiment.program is not None:
        return LOG_BYTES
    steps = experiment.epochs * experiment.steps_per_epoch
    if experiment.is_unpaced or experiment.on_failure == CONTINUE:
        steps *= experiment.workers  # one may make most of them
    boundaries = experiment.epochs * experiment.nodes
    loggers = experiment.nodes if experiment.virtual else 1
    return (4 << 20) + 1024 * (loggers * (steps + 2) + boundaries)


class EventReader:
    """Gives each whole line of a growing file once; a line without its end yet waits."""

    def __init__(self, path: Path, most: int = LOG_BYTES) -> None:
        self._path, self._most = path, most
        self._offset = 0

    def read(self) -> list[Event]:
        """The next events; DocumentError where a line is none, or the file is no event log."""
        return [_parse(line, self._path) for line in self.read_lines() if line]

    def read_lines(self) -> list[bytes]:
        """The next whole lines, of at most LINE_BYTES; none while there is no file."""
        try:
            piece = read_piece(self._path, self._offset, LINE_BYTES)
        except FileNotFoundError:
            return []
        end = piece.rfind(b"\n") + 1
        if not end and len(piece) == LINE_BYTES:
            raise DocumentError(f"{self._path.name} has a line of more than {LINE_BYTES:,} bytes")
        self._offset += end
        if self._offset > self._most:
            raise DocumentError(f"{self._path.name} has more than {self._most:,} bytes")
        return piece[:end].split(b"\n")[:-1]


def read_lines(path: Path, most: int = LOG_BYTES) -> Iterator[bytes]:
    """All whole lines of an event log; a line that a crash cut off is left out."""
    reader = EventReader(path, most)
    while lines := reader.read_lines():
        yield from lines


def read_events(path: Path, most: int = LOG_BYTES) -> Iterator[Event]:
    """All events of a log; DocumentError, after the events before it, where a line is none."""
    return (_parse(line, path) for line in read_lines(path, most) if line)


def _parse(line: bytes, path: Path) -> Event:
    try:
        return parse_event(line)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{path.name}: {plain_text(str(error))}") from None
