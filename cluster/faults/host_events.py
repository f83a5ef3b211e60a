"""events/host.jsonl of a run: what the host did to nodes and found of them."""

import os
from pathlib import Path

from cluster.spec.documents.event import Event


class HostEvents:
    """Made with the first event: a run in which nothing happens has no such file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, event: Event) -> None:
        """One line at once, so that a reader never sees half of it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o644)
        try:
            os.write(descriptor, event.line().encode())
        finally:
            os.close(descriptor)
