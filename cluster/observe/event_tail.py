"""Follow a growing file of JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class EventTail:
    """Gives each whole line once; a line that is still being written waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[dict[str, Any]]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        end = text.rfind(b"\n") + 1
        self._offset += end
        return [json.loads(line) for line in text[:end].splitlines()]
