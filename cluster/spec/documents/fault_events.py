"""Events of faults: what happened to nodes, who noticed it, and who goes on.

The host writes `fault_begun`, `fault_over` and `noticed` to events/host.jsonl, a node `reached` and
`member` to its own log. Who trains together is in membership.json.
"""

from cluster.spec.documents.codec import Count
from cluster.spec.documents.event import Event


class Reached(Event, kind="reached"):
    """The worker is at the step or exchange of one of its faults: it kills or stops itself now, and
    the host does all else."""

    number: Count
    """Of the fault, from 0: its place in the run's schedule of faults."""
    step: Count
    """The step that the worker is in, from 1."""
    exchange: Count | None = None
    """The exchange whose bytes move, from 1; null at a step's begin."""
    moved_bytes: Count | None = None
    """Bytes that the node's interface has carried in it so far."""


class Member(Event, kind="member"):
    """The worker trains in a generation from here on."""

    generation: Count
    """Number of the generation, from 0."""
    from_step: Count
    """The first step that it makes in it."""
    donor: Count | None = None
    """Rank of the worker that it got parameters and states from; null where it has its own."""
    recovered_bytes: Count = 0
    """Bytes of the state that it got."""


class FaultBegun(Event, kind="fault_begun"):
    """A fault has happened; `t` is when it really did."""

    number: Count
    """Of the fault, from 0: its place in the run's schedule of faults."""
    fault: str
    """As it was asked for, in the spelling of `--fault`."""
    node: str
    """Name of the node that it happened to."""
    step: Count | None = None
    """The step that the node was in, from 1; null outside of training."""
    exchange: Count | None = None
    """The exchange that it was in, where the node itself told so."""
    failure: str | None = None
    """Why it could not be done; null where it was."""


class FaultOver(Event, kind="fault_over"):
    """What was done to a node is undone: it runs, is attached, or may come back."""

    number: Count
    """Of the fault, as in `fault_begun`."""
    node: str
    """Name of the node."""


class Noticed(Event, kind="noticed"):
    """The host has found that a node does not go on."""

    node: str
    """Name of the node."""
    why: str
    """In words, as it is told to the person who waits."""
