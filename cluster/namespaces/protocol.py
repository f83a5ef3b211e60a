"""What the host and the supervisor of namespace nodes say to each other.

host -> supervisor    SupervisorPlan as its argument, then a Command per line on standard input;
                      the end of the input ends the supervisor and all nodes
supervisor -> host    a Message per line on standard output, as JSON
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from cluster.spec.documents.codec import from_json, to_json
from cluster.spec.documents.links import LinkStatistics, MeasuredLink

SUPERVISOR, REFERENCE, HELPER = "supervisor", "link-reference", "-helper"
BACKGROUND = "background"
"""Names of processes before workers are forked: `ps` shows 15 characters, node4095-helper."""


def describe(process: str) -> str:
    """A process by its name, for a sentence."""
    if process.endswith(HELPER):
        return f"{process.removesuffix(HELPER)}'s link helper"
    return {SUPERVISOR: "the supervisor of all nodes", REFERENCE: "the link reference"}.get(
        process, f"the process {process}"
    )


class Command(StrEnum):
    STATISTICS = "statistics"
    """Answer with the drop and overlimit counts of all shaped links."""
    STOPPED = "stopped"
    """Answer with the nodes that do not run."""
    CHANGE = "change"
    """`change PLACE LINK`: give a shaped link (PLACE is a rank) or path (a-b) other rates."""
    BACKGROUND = "background"
    """`background on` or `background off`: begin or end background traffic."""
    DISTURB = "disturb"
    """`disturb KIND RANK`: kill, stop, resume, unplug or plug a node."""


class Kind(StrEnum):
    LINKS = "links"
    """The links are verified, or not: findings and complaint."""
    READY = "ready"
    """All nodes are forked."""
    STATISTICS = "statistics"
    """The answer to Command.STATISTICS."""
    STOPPED = "stopped"
    """The answer to Command.STOPPED."""
    CHANGED = "changed"
    """The answer to Command.CHANGE; the complaint says what went wrong."""
    BACKGROUND = "background"
    """The answer to Command.BACKGROUND; the complaint says what went wrong."""
    DISTURBED = "disturbed"
    """The answer to Command.DISTURB; the complaint says what went wrong."""
    EXIT = "exit"
    """A node has ended: rank and exit code."""
    REFUSED = "refused"
    """A line of input that is no Command."""


@dataclass(frozen=True)
class Message:
    kind: Kind
    links: tuple[MeasuredLink, ...] = ()
    complaint: str | None = None
    """Why the links are off their targets, or which line of input was refused."""
    statistics: tuple[LinkStatistics, ...] = ()
    stopped: dict[int, str] = field(default_factory=dict)
    """By rank, how a node that does not run was stopped."""
    rank: int = -1
    code: int = 0

    def line(self) -> str:
        return json.dumps(to_json(self)) + "\n"

    @classmethod
    def parse(cls, line: str) -> Self:
        return from_json(cls, json.loads(line))


@dataclass(frozen=True)
class SupervisorPlan:
    """The nodes that a supervisor starts."""

    nodes: int
    entry: str
    """The module whose main() a node runs."""
    imports: tuple[str, ...]
    """Slow modules that are imported once, before the nodes are forked."""
    logs: tuple[str, ...]
    """By rank, the file for a node's output."""
    folders: tuple[str, ...]
    """By rank, the folder that a node writes to."""
    session: str
    """The folder with all runs, which nodes read."""
    data_folder: str
    user_folders: tuple[str, ...]
    """Of the user's own files, which nodes read."""
    first_user: int | None
    """The user of rank 0; the others follow. None: all nodes are the host's own user."""
    cgroups: dict[int, list[str]]
    """By rank, the cgroup.procs files of the control groups that a node joins."""
    links: dict[int, str]
    """By rank, the links to shape."""
    sites: dict[str, tuple[int, ...]]
    """Ranks of each site's nodes."""
    between: str
    """The paths between sites, as --between has them; empty without."""
    environment: dict[str, str]
    processes: int
    """Processes and threads that each node may have."""
    dilation: float = 1.0
    """Seconds on this host for each emulated second."""
    delay_line: bool = False
    """Whether paths between sites are delayed in user space, since the kernel has no netem."""
    background: str = ""
    """Background traffic, as --background has it; empty without."""

    def to_json(self) -> str:
        return json.dumps(to_json(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return from_json(cls, json.loads(text))
