"""The files that a node writes in a run, and how others read them. Standard library only.

The host creates them in the run folder. Where an engine makes the nodes, a node writes through hard
links in a folder of its own (cluster/host/node_folders.py), so nothing that it does to these names
changes what the host opens. What a node writes is read here alone: bounded, and as a regular file.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from cluster.spec.documents.codec import DocumentError

NODE_FOLDER = "GRADWIRE_NODE_FOLDER"
"""The environment variable with a node's own folder; without it the run folder is written to."""
SAFELY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class NodeFiles:
    """Where one node writes. Only rank 0 has a model, only a Horovod run a timeline, only a
    program a working folder."""

    events: Path
    log: Path
    heartbeat: Path
    model: Path
    timeline: Path
    work: Path
    state: Path
    """With --save-state, what the run ends with; until then what it began with."""

    @classmethod
    def in_own_folder(cls, folder: Path) -> Self:
        """Fixed names, which are linked to another run's files when that run starts."""
        names = ("events.jsonl", "node.log", "heartbeat", "consensus.pt", "timeline.json", "work")
        return cls(*(folder / name for name in (*names, "state.pt")))

    def to_write(self, variables: Mapping[str, str] = os.environ) -> "NodeFiles":
        """The names that the calling node writes to."""
        own = variables.get(NODE_FOLDER)
        return NodeFiles.in_own_folder(Path(own)) if own else self


def read_piece(path: Path, offset: int, most_bytes: int) -> bytes:
    """Part of a file that a node wrote, never more than `most_bytes`; as open_regular."""
    with open_regular(path) as file:
        return os.pread(file.fileno(), most_bytes, offset)


def open_regular(path: Path) -> BinaryIO:
    """A file of a run folder, to read.

    FileNotFoundError where there is none yet, DocumentError where it is no regular file.
    """
    try:
        descriptor = os.open(path, SAFELY)
    except FileNotFoundError:
        raise
    except OSError as error:  # a link, or a file that its owner has closed to others
        raise DocumentError(f"{path.name} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DocumentError(f"{path.name} is no regular file")
    return os.fdopen(descriptor, "rb")


def plain_text(text: str, most: int = 500) -> str:
    """One printable line of what a node said: a terminal must not obey it."""
    cut = text[:most] + ("..." if len(text) > most else "")
    return "".join(c if c.isprintable() else " " for c in cut).strip()
