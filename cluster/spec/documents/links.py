"""links.json: shaped links, as verified before training and as they fared in the run."""

from dataclasses import field

from cluster.spec.documents.codec import SCHEMA, Amount, Count, Document


class LinkStatistics(Document):
    """Packets that a shaped link dropped, and how often it had to hold one back."""

    node: str
    """The node that the link attaches; of a path between sites its name, such as a-b."""
    sent_drops: Count | None = None
    """Packets dropped on the way out."""
    sent_overlimits: Count | None = None
    """Times that a packet had to wait on the way out."""
    received_drops: Count | None = None
    """Packets dropped on the way in."""
    received_overlimits: Count | None = None
    """Times that a packet had to wait on the way in."""


COUNTS = ("sent_drops", "sent_overlimits", "received_drops", "received_overlimits")


class MeasuredLink(LinkStatistics):
    """A shaped link: target, rates measured before training, statistics of the run."""

    target: str
    """Target as RATE[/DELAY[/LOSS]]."""
    target_mbit: Amount
    """Target rate on the wire, Mbit/s, from the node."""
    sent_mbit: Amount
    """Measured rate from the node, Mbit/s."""
    received_mbit: Amount
    """Measured rate to the node, Mbit/s."""
    error: float
    """Measured over target rate, less 1; of the direction that is further off."""
    target_received_mbit: Amount | None = None
    """Target rate to the node, Mbit/s; null where it is the same."""
    delay_ms: float | None = None
    """Measured one-way delay that the link adds; null where the target has none."""
    attempts: Count = 1
    """Measurements that it took."""
    burst_bytes: Count | None = None
    """What the link lets through at once before it throttles."""


class LinkAnswer(Document):
    """What the process that sets up a link tells the host."""

    measured: MeasuredLink | None = None
    paths: list[MeasuredLink] = field(default_factory=list)
    """Paths between sites that it measured."""
    complaint: str | None = None


class Links(Document):
    """links.json: where links are shaped."""

    schema: int = SCHEMA
    """Version of the document."""
    links: list[MeasuredLink]
    """Every shaped link."""
