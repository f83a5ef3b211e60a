"""Events of links over time, which the host writes to events/host.jsonl."""

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
