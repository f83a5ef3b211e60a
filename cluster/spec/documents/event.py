"""What all events have, and the classes of their kinds by name."""

import json
from dataclasses import field
from typing import ClassVar

from cluster.spec import clock
from cluster.spec.documents.codec import Document, Json

KINDS: dict[str, type["Event"]] = {}
"""The classes of events, by the word under the key `event`."""


class Event(Document):
    """What all events have."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, kind: str = "") -> None:
        super().__init_subclass__()
        cls.kind = kind
        if kind:
            KINDS[kind] = cls

    t: float = field(default_factory=lambda: round(clock.now(), 4))
    """Unix time, seconds."""

    def to_json(self) -> Json:
        return {"event": self.kind, **super().to_json()}

    def line(self) -> str:
        return json.dumps(self.to_json(), separators=(",", ":")) + "\n"
