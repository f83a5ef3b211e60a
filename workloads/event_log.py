"""One worker's event log: a JSON line per event, or a readable line where nothing is recorded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

from cluster.records import event


class EventLog:
    """Line-buffered: a line costs microseconds, and a crash loses none."""

    def __init__(self, path: Path | None, node: str) -> None:
        self.node = node
        self.file: TextIO | None = None if path is None else path.open("w", buffering=1)

    def write(self, kind: str, **values: Any) -> None:
        if self.file is not None:
            self.file.write(json.dumps(event(kind, **values), separators=(",", ":")) + "\n")
        elif kind in ("epoch", "result", "error"):
            shown = " ".join(
                f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
                for name, value in values.items()
            )
            print(f"{self.node} {kind} {shown}", file=sys.stdout, flush=True)
