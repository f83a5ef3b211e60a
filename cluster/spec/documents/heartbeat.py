"""A node's heartbeat: a record of fixed size that the node overwrites every half second.

It costs no traffic: the file is in the run folder, and the host reads it there. Only a change of
the beat's number counts, by the host's own clock.
"""

import json
import os
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Self

from cluster.spec.documents.codec import Amount, Count, Document, parse_json
from cluster.spec.documents.node_files import read_piece

BEAT_S = 0.5
RECORD_BYTES = 1024
MOST_UNREACHABLE = 64
"""Ranks that a record names; it counts all of them."""


class LinkState(StrEnum):
    UP = "up"
    DOWN = "down"
    MISSING = "missing"


class Heartbeat(Document):
    """What a node says of itself, whether or not its training process gets anything done."""

    beat: Count
    """Number of this record, from 1."""
    is_stopped: bool = False
    """Whether a signal has stopped the training process (SIGSTOP)."""
    exit_code: Count | None = None
    """How the training process ended, 128 + signal where one ended it; null while it runs."""
    generation: Count | None = None
    """With `--on-failure continue`: the generation that the training process is, or was, in."""
    cpu_s: Amount = 0.0
    """CPU time of the training process so far."""
    has_joined: bool | None = None
    """Whether a program's processes on this node have ever been connected to another node; null for
    our own training."""
    link: LinkState = LinkState.UP
    """State of eth0: up, down (no carrier, or switched off) or missing."""
    is_unanswered: bool = False
    """Whether nothing that the node sends is acknowledged: TCP retransmits again and again."""
    reached: Count | None = None
    """Number of nodes that answered a probe; null while there is no reason for one."""
    unreachable: list[Count] = field(default_factory=list)
    """Ranks of the nodes that did not."""

    def record(self) -> bytes:
        return json.dumps(self.to_json()).encode().ljust(RECORD_BYTES)

    @classmethod
    def parse(cls, record: bytes) -> Self:
        """ValueError for anything but a record."""
        return cls.from_json(parse_json(record))


def exit_code(status: int) -> int:
    """Of a process, by os.waitpid's status: 128 + signal where one ended it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def read_heartbeat(path: Path) -> Heartbeat | None:
    """None where there is none. The node controls the content: anything else is no heartbeat."""
    try:
        return Heartbeat.parse(read_piece(path, 0, RECORD_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
