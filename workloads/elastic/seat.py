"""A node's part in one generation: its rank among the members, its batches, and its state."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from cluster.spec.documents.fault_events import Member
from cluster.spec.documents.membership import Generation, Membership, Place
from cluster.spec.documents.run_folder import node_name
from workloads.comm.messages import sendrecv
from workloads.comm.peers import Peers
from workloads.data.deal import Hands, Numbered, deal_epoch, deal_numbered
from workloads.elastic.committed import Committed, layout_bytes, layout_of, take_over, tensors_in
from workloads.elastic.tally import Tally
from workloads.part import Participant

MODEL = ("parameters.", "buffers.")
"""Of the names of a state, those of what a server without a barrier sends to its workers."""


class Seat:
    """Implements part.Part for the present generation."""

    def __init__(
        self, participant: Participant, membership: Membership, committed: Committed
    ) -> None:
        self._participant, self._committed = participant, committed
        self._generations = membership.generations
        self._present = membership.present
        whole, members = participant.spec, self._present.members
        self.spec = whole.among(sum(rank < whole.workers for rank in members))
        self.rank, self.members = members.index(participant.rank), members
        self.start = self._present.start
        self._per_epoch = whole.workers * whole.steps_per_epoch
        self._tally = Tally(self._per_epoch) if whole.is_unpaced else None
        self._dealt: tuple[int, Numbered] | None = None
        self._state: Mapping[str, Tensor] = {}

    def meet_at(self, first_port: int) -> dict[str, str]:
        """Environment of the rendezvous: at the first member, on a port of its own,
        since the last generation's may still be in use."""
        return {
            "MASTER_ADDR": node_name(self._present.members[0]),
            "MASTER_PORT": str(first_port + self._present.number),
        }

    def rows(self, epoch: int) -> Sequence[Tensor]:
        hands = self._deal(epoch, self._generations)
        own = hands.get(self._participant.rank)
        return next(iter(hands.values())) if own is None else own  # a server reads none

    def numbered(self, epoch: int) -> Numbered | None:
        if self._tally is None:
            return None
        if self._dealt is None or self._dealt[0] != epoch:
            deck, _ = self._participant.deck(epoch)
            batch_size, last = self.spec.batch_size, epoch * self._per_epoch
            dealt = deal_numbered(deck, self._generations, epoch, batch_size, last)
            self._dealt = epoch, dealt
        return self._dealt[1]

    def begin(self, peers: Peers, state: Mapping[str, Tensor]) -> None:
        """Go back to where all members meet, and bring those up to date that have no state."""
        generation, own = self._present, self._participant.rank
        self._state = {**state, **(self._tally.tensors if self._tally else {})}
        if own not in generation.joiners and (place := self._own_place()):
            self._committed.restore(self._state, place)
        recovered_bytes = self._bring_up_to_date(generation, state)
        if self._tally is not None:
            recovered_bytes += self._get_model_of_server(generation, state)
            self._tally.begin(self.start.epoch)
        self._committed.begin(self._state, self.start)
        self._participant.log.write(
            Member(
                generation=generation.number,
                from_step=self.start.step + 1,
                donor=generation.donor if own in generation.joiners else None,
                recovered_bytes=recovered_bytes,
            )
        )

    def commit(self, place: Place, numbers: Sequence[int] = ()) -> None:
        """Where gradients are accumulated between rounds, only the end of a round is complete."""
        if self._tally is not None and (dealt := self.numbered(place.epoch)):
            self._tally.note(place.epoch, numbers, sum(len(dealt.of(n)) for n in numbers))
        if self.spec.average == "parameters" or not place.pending:
            self._committed.commit(self._state, place)

    def samples_seen(self, place: Place) -> int:
        """Those that count, in all generations."""
        if self._tally is not None:
            return self._tally.samples
        return sum(self._samples_of(epoch) for epoch in range(1, self.spec.epochs + 1))

    def _own_place(self) -> Place | None:
        """The last one that is not ahead of the others' rounds."""
        places = (self._committed.latest, self._committed.before)
        known = [place for place in places if place is not None]
        return next((place for place in known if place.round <= self.start.round), None)

    def _bring_up_to_date(self, generation: Generation, state: Mapping[str, Tensor]) -> int:
        """From the donor to all joiners at once; the bytes that this node receives."""
        if generation.donor is None:
            return 0
        return self._hand_over(state, generation.donor, generation.joiners)

    def _get_model_of_server(self, generation: Generation, state: Mapping[str, Tensor]) -> int:
        """Without a barrier workers have older models than their server's."""
        members, whole = generation.members, self._participant.spec
        servers = [rank for rank in members if rank >= whole.workers]
        if not generation.number or not servers:
            return 0
        sent = MODEL if whole.buffers == "average" else MODEL[:1]
        model = {name: tensor for name, tensor in state.items() if name.startswith(sent)}
        return self._hand_over(model, servers[0], [rank for rank in members if rank not in servers])

    def _hand_over(self, state: Mapping[str, Tensor], donor: int, takers: Sequence[int]) -> int:
        """All members call it; the bytes that this node receives."""
        own = self._participant.rank
        if own not in (donor, *takers):
            return 0
        layout = layout_of(state)
        memory = torch.empty(layout_bytes(layout), dtype=torch.uint8)
        tensors = tensors_in(memory, layout)
        if own == donor:
            take_over(tensors, state)
            sendrecv([(memory, self.members.index(rank)) for rank in takers], [])
            return 0
        sendrecv([], [(memory, self.members.index(donor))])
        take_over(state, tensors)
        return memory.numel()

    def _deal(self, epoch: int, generations: Sequence[Generation]) -> Hands:
        whole = self._participant.spec
        deck, owners = self._participant.deck(epoch)
        return deal_epoch(deck, generations, epoch, whole.workers, whole.batch_size, owners)

    def _samples_of(self, epoch: int) -> int:
        """Of each generation of the epoch all of its deal, or what counts if another follows."""
        own, found = self._participant.rank, 0
        for count, generation in enumerate(self._generations, start=1):
            following = [g for g in self._generations[count:][:1] if g.start.epoch <= epoch]
            if generation.start.epoch > epoch or any(g.start.epoch < epoch for g in following):
                continue
            hand = list(self._deal(epoch, self._generations[:count]).get(own, ()))
            for batch in hand[: following[0].done.get(own, 0)] if following else hand:
                found += len(batch)
        return found
