"""Follow a growing file of events."""

from pathlib import Path

from cluster.spec.documents.events import Event, parse_event


class EventTail:
    """Gives each whole line once; a line that is still being written waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Event]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        end = text.rfind(b"\n") + 1
        self._offset += end
        return [parse_event(line) for line in text[:end].splitlines()]
