"""Which samples a worker trains on where the members of a run change: --on-failure continue.

An epoch is a deck of samples, the same as without faults. A generation deals what is left of it to
its members, in batches of at most --batch-size. When it ends, the batches that count leave the
deck (Generation.done), and the next generation deals the rest. So every sample of an epoch is read
once, whoever was there. All is a pure function of membership.json: workers need no communication.

Without a barrier nobody has a hand of its own: batches are numbered, and whoever is free gets the
next one (workloads/unpaced/tickets.py). The last number of an epoch is always the same; a
generation that deals fewer batches begins with a later number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cluster.spec.documents.membership import Generation

Hands = Mapping[int, Sequence[Tensor]]
"""By rank, the samples of each batch; all have the same number of batches."""


def deal(
    deck: Tensor, members: Sequence[int], batch_size: int, owners: Tensor | None = None
) -> Hands:
    """All samples of a deck, each to one member; batches of a step differ by at most one sample.

    `owners` gives by sample the rank whose own it is (label skew): it goes to its owner, if that is
    a member, and is dealt like those without one otherwise.
    """
    if owners is None:
        steps = -(-len(deck) // (batch_size * len(members)))
        parts = deck.tensor_split(steps) if steps else ()
        return {rank: [p[at :: len(members)] for p in parts] for at, rank in enumerate(members)}
    owner = owners[deck]
    orphans = deck[~torch.isin(owner, torch.tensor(members))]
    hands = {
        rank: torch.cat([deck[owner == rank], orphans[at :: len(members)]])
        for at, rank in enumerate(members)
    }
    steps = -(-max(map(len, hands.values())) // batch_size)
    return {rank: hand.tensor_split(steps) if steps else () for rank, hand in hands.items()}


def deal_epoch(
    deck: Tensor,
    generations: Iterable[Generation],
    epoch: int,
    workers: int,
    batch_size: int,
    owners: Tensor | None = None,
) -> Hands:
    """What the last of these generations deals in an epoch; ranks from `workers` on do not read."""
    before: Generation | None = None
    hands: Hands = {}
    for generation in generations:
        if generation.start.epoch > epoch:
            break
        if before is not None and generation.start.epoch == epoch:
            hands = deal(deck, _readers(before, workers), batch_size, owners)
            deck = _without(deck, _read(hands, generation.done))
        before = generation
    assert before is not None, "a run has at least one generation"
    return deal(deck, _readers(before, workers), batch_size, owners)


@dataclass(frozen=True)
class Numbered:
    """Batches of an epoch, by the number of the step among those of all workers."""

    batches: Sequence[Tensor]
    last: int

    @property
    def numbers(self) -> range:
        return range(self.last - len(self.batches) + 1, self.last + 1)

    def of(self, number: int) -> Tensor:
        return self.batches[number - self.numbers.start]


def deal_numbered(
    deck: Tensor, generations: Iterable[Generation], epoch: int, batch_size: int, last: int
) -> Numbered:
    """What the last of these generations deals in an epoch to whoever is free."""
    dealt = _number(deck, batch_size, last)
    for generation in list(generations)[1:]:
        if generation.start.epoch > epoch:
            break
        if generation.start.epoch == epoch:
            deck = _without(deck, [dealt.of(number) for number in generation.read])
            dealt = _number(deck, batch_size, last)
    return dealt


def _number(deck: Tensor, batch_size: int, last: int) -> Numbered:
    count = -(-len(deck) // batch_size)
    return Numbered(deck.tensor_split(count) if count else (), last)


def _readers(generation: Generation, workers: int) -> list[int]:
    return [rank for rank in generation.members if rank < workers]


def _read(hands: Hands, done: Mapping[int, int]) -> list[Tensor]:
    return [batch for rank, hand in hands.items() for batch in hand[: done.get(rank, 0)]]


def _without(deck: Tensor, batches: Sequence[Tensor]) -> Tensor:
    if not batches or not len(deck):
        return deck
    left = torch.ones(int(deck.max()) + 1, dtype=torch.bool)
    left[torch.cat(list(batches))] = False
    return deck[left[deck]]
