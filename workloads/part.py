"""What a node does of a run: the whole of it, or from one change of the members to the next."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

from cluster.spec.documents.membership import Place
from cluster.spec.experiment import Experiment
from workloads.comm.peers import Peers
from workloads.data.deal import Numbered
from workloads.event_log import EventLog

Deck = tuple[Tensor, Tensor | None]
"""The samples of an epoch in order, and by sample the rank whose own it is, where there is one."""


class Part(Protocol):
    """Among whom, from where, and on what."""

    @property
    def spec(self) -> Experiment:
        """With as many workers as there are."""

    @property
    def rank(self) -> int:
        """This node's rank among them."""

    @property
    def members(self) -> Sequence[int]:
        """Ranks of the run, by rank among them."""

    @property
    def start(self) -> Place: ...

    def rows(self, epoch: int) -> Sequence[Tensor]:
        """The samples of each batch of an epoch that is still to be trained on."""

    def numbered(self, epoch: int) -> Numbered | None:
        """Without a barrier: what is still to be trained on by whoever is free; None where every
        worker goes through its own shards."""

    def begin(self, peers: Peers, state: Mapping[str, Tensor]) -> None:
        """The node has joined the others; its state may be overwritten."""

    def commit(self, place: Place, numbers: Sequence[int] = ()) -> None:
        """A step is complete; `numbers` among those of all workers, without a barrier."""

    def samples_seen(self, place: Place) -> int:
        """Samples that this worker has trained on, at the end."""


class Participant(Protocol):
    """A worker or a server, before it joins the others."""

    @property
    def spec(self) -> Experiment: ...
    @property
    def rank(self) -> int: ...
    @property
    def log(self) -> EventLog: ...

    def rows(self, epoch: int) -> Sequence[Tensor]:
        """The samples of each of its batches in an epoch."""

    def deck(self, epoch: int) -> Deck:
        """The samples that all workers read in an epoch."""

    def take_part(self, part: Part) -> None:
        """Join the others, and do this part to its end."""


class Whole:
    """The whole run, among all workers. Implements Part."""

    def __init__(self, participant: Participant) -> None:
        self.spec, self.rank, self.start = participant.spec, participant.rank, Place()
        self.rows = participant.rows
        self.members: Sequence[int] = range(participant.spec.nodes)

    def numbered(self, epoch: int) -> None:
        """Workers go through their own shards."""

    def begin(self, peers: Peers, state: Mapping[str, Tensor]) -> None:
        """No-op: all workers make the same model."""

    def commit(self, place: Place, numbers: Sequence[int] = ()) -> None:
        """No-op: nobody goes back."""

    def samples_seen(self, place: Place) -> int:
        return place.step * self.spec.batch_size
