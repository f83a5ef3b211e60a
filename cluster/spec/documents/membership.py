"""membership.json: who trains together, generation by generation (--on-failure continue).

The host writes it and the nodes read it; it costs no traffic. A generation lasts until one of its
members is lost, or a node comes back. Then all members stop where they are, and the next generation
goes on from the last completed round.
"""

from dataclasses import field

from cluster.spec.documents.codec import SCHEMA, Amount, Count, Document


class Place(Document):
    """How far a worker is: what its next step continues from."""

    generation: Count = 0
    """The generation in which `done` counts."""
    epoch: Count = 1
    """Epoch, from 1."""
    done: Count = 0
    """Batches that it has trained on, of those that its generation dealt to it in this epoch."""
    step: Count = 0
    """Steps of the run so far."""
    round: Count = 0
    """Rounds of the run so far."""
    pending: Count = 0
    """Steps since the last round."""


class Generation(Document):
    """Who trains together, and from where."""

    number: Count
    """From 0."""
    members: list[Count]
    """Ranks of the nodes that take part, in order; a parameter server is one of them."""
    start: Place = field(default_factory=Place)
    """Where it begins; a member may have made more local steps than `pending` says."""
    done: dict[int, Count] = field(default_factory=dict)
    """By rank of the generation before: how many of the batches that it dealt in this epoch
    count as read. All others are dealt again."""
    read: list[Count] = field(default_factory=list)
    """Without a barrier, instead of `done`: the numbers of the steps of all workers, of the
    generation before and in this epoch, whose batches count as read."""
    joiners: list[Count] = field(default_factory=list)
    """Members without a state: they get the donor's."""
    donor: Count | None = None
    """Rank of the member that gives them its state."""
    why: list[str] = field(default_factory=list)
    """What ended the generation before, in words; empty for the first one."""
    noticed_t: Amount | None = None
    """Unix time at which the host noticed that; null for the first one."""
    t: Amount | None = None
    """Unix time at which all members had stopped, and this generation was formed."""


class Membership(Document):
    """All generations so far."""

    schema: int = SCHEMA
    """Version of the document."""
    generations: list[Generation] = field(default_factory=list)
    """In order; the last one is the present one."""
    is_held: bool = False
    """Whether the members of the present one are to stop: another one follows."""
    is_over: bool = False
    """Whether the run is over."""

    @property
    def present(self) -> Generation:
        return self.generations[-1]
