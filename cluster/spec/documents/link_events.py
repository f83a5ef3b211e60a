"""Events of links over time, and of background traffic, written to events/host.jsonl."""

from cluster.spec.documents.codec import Amount
from cluster.spec.documents.event import Event


class LinkChanged(Event, kind="link_changed"):
    """A link or path has other rates from `t` on."""

    place: str
    """The node that the link attaches, or a path between sites such as a-b."""
    due_s: Amount
    """When its trace asked for it: emulated seconds since training began."""
    up_mbit: Amount
    """Mbit/s from the node, or from the first site to the second."""
    down_mbit: Amount
    """Mbit/s in the other direction."""


class BackgroundChanged(Event, kind="background"):
    """Background traffic begins or ends; all of its flows do at once."""

    flows: str
    """As `--background` has them, such as 1-3:10mbit."""
    is_on: bool
    """Whether it begins."""
