"""Who trains together: every order of a few events, and the samples of simulated runs."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch

from cluster.elastic import crew
from cluster.elastic.crew import Crew, Stage
from cluster.elastic.roll import victims
from cluster.observe.liveness import Condition, Finding
from cluster.spec.documents.events import Held
from cluster.spec.documents.membership import Membership, Place
from workloads.data.deal import deal, deal_epoch, deal_numbered
from workloads.elastic.keeper import NEVER, Order, next_order

DEPTH = 4
NODES = 3


def held(state: Crew, place: Place | None = None) -> Held:
    return Held(generation=state.present.number, latest=place or Place())


def moves(state: Crew) -> Iterator[tuple[str, Crew]]:
    """All that can happen next, with three nodes."""
    for rank in range(NODES):
        yield f"kill {rank}", crew.lose(state, rank, "killed", 1.0, comes_back=False)
        yield f"freeze {rank}", crew.lose(state, rank, "frozen", 1.0, comes_back=True)
        yield f"allow {rank}", crew.allow(state, rank)
        yield f"end {rank}", crew.note_end(state, rank)
        place = Place() if rank in state.members else None
        yield f"held {rank}", crew.note_held(state, rank, Held(generation=0, latest=place))
        report = Held(generation=state.present.number, latest=place)
        yield f"held {rank} now", crew.note_held(state, rank, report)


def reachable(first: Crew) -> Iterator[tuple[Crew, str, Crew]]:
    """Every state after up to DEPTH events, the event, and what settles from it."""
    known = {repr(first)}
    edge = [first]
    for _ in range(DEPTH):
        following = []
        for state in edge:
            for what, moved in moves(state):
                settled = crew.settle(moved, 2.0)
                yield state, what, settled
                if repr(settled) not in known and settled.present.number < 3:
                    known.add(repr(settled))
                    following.append(settled)
        edge = following


@pytest.mark.parametrize("workers", [3, 2], ids=["workers", "with-a-server"])
def test_every_order_of_events_leaves_a_crew_that_can_go_on_or_says_why_not(workers: int) -> None:
    seen = Counter[str]()
    for before, what, after in reachable(crew.assemble(NODES, workers)):
        seen[after.stage] += 1
        if before.stage in (Stage.OVER, Stage.FAILED):
            assert after.stage == before.stage, what
            continue
        assert after.present.number - before.present.number in (0, 1), what
        assert not after.barred & after.members, what
        assert not after.away.keys() & set(after.members), what
        assert after.present.members == sorted(set(after.present.members)), what
        if after.stage == Stage.HELD:
            assert after.members - after.reports.keys(), f"{what}: all have reported"
            for rank in after.members:
                after = crew.note_held(after, rank, held(after))
            assert crew.settle(after, 3.0).stage != Stage.HELD, what
        if after.stage == Stage.OVER:
            assert after.ended, what
        if after.stage == Stage.FAILED:
            assert after.why, what
            is_alone = not any(rank < workers for rank in after.members)
            assert is_alone or workers < NODES or "has the model" in after.why[-1], what
    assert {Stage.TRAINING, Stage.HELD, Stage.OVER, Stage.FAILED} <= set(seen)


def test_a_node_that_was_killed_comes_back_only_when_it_may() -> None:
    state = crew.assemble(3, 3)
    state = crew.settle(crew.lose(state, 1, "killed", 1.0, comes_back=False), 1.0)
    for rank in (0, 2):
        state = crew.note_held(state, rank, held(state))
    state = crew.settle(state, 2.0)
    assert (state.present.members, state.present.joiners) == ([0, 2], [])
    state = crew.settle(crew.note_held(state, 1, Held(generation=1)), 3.0)
    assert state.stage == Stage.TRAINING
    state = crew.settle(crew.allow(state, 1), 4.0, blocked=[1])
    assert state.stage == Stage.TRAINING  # it is out of reach
    state = crew.settle(state, 5.0)
    assert state.stage == Stage.HELD
    for rank in (0, 2):
        state = crew.note_held(state, rank, held(state))
    state = crew.settle(state, 6.0)
    assert (state.present.members, state.present.joiners) == ([0, 1, 2], [1])
    assert state.present.donor == 0


def test_without_its_server_a_run_fails_and_so_does_one_that_nobody_has_the_model_of() -> None:
    with_server = crew.assemble(3, 2)
    assert crew.lose(with_server, 2, "killed", 1.0, comes_back=True).stage == Stage.FAILED
    state = crew.assemble(2, 2, absent=[1])
    state = crew.settle(crew.note_held(crew.allow(state, 1), 1, Held(generation=0)), 1.0)
    state = crew.settle(crew.note_held(state, 0, held(state)), 2.0)
    assert state.present.joiners == [1]
    state = crew.lose(state, 0, "killed", 3.0, comes_back=False)
    state = crew.settle(crew.note_held(state, 1, Held(generation=1)), 4.0)
    assert (state.stage, state.why[-1]) == (Stage.FAILED, "no node is left that has the model")


def test_what_a_node_does_follows_from_the_membership() -> None:
    first, second = crew.assemble(2, 2).generations[0], crew.assemble(2, 2, absent=[1]).present
    training = Membership(generations=[first])
    assert next_order(training, 0, NEVER, NEVER) == Order.START
    assert next_order(training, 0, 0, NEVER) == Order.NONE
    stopping = replace(training, is_held=True)
    assert next_order(stopping, 0, 0, NEVER) == Order.HOLD
    assert next_order(stopping, 0, 0, 0) == Order.NONE
    without = Membership(generations=[first, replace(second, number=1)])
    assert next_order(without, 1, 0, 0) == Order.HOLD  # it learns that it is away, and says so
    assert next_order(without, 1, 0, 1) == Order.NONE
    assert next_order(without, 0, 0, 0) == Order.START
    assert next_order(replace(without, is_over=True), 1, 0, 1) == Order.LEAVE


def test_of_nodes_that_do_not_reach_each_other_the_first_goes_on() -> None:
    cut = Finding(Condition.CUT_OFF, (1, 3), "", 0.0)
    assert victims(cut, {0, 1, 2, 3}) == [3]
    assert victims(cut, {0, 3}) == [3]
    assert victims(Finding(Condition.FROZEN, (1,), "", 0.0), {0, 1}) == [1]
    assert victims(Finding(Condition.FROZEN, (1,), "", 0.0), {0}) == []


# --- samples -------------------------------------------------------------------------------------


@dataclass
class Simulated:
    """A run on paper: workers make steps, some are lost or come back at random moments."""

    workers: int
    batch_size: int
    epochs: int
    local_steps: int
    keeps_own: bool
    chance: random.Random

    def __post_init__(self) -> None:
        self.crew = crew.assemble(self.workers, self.workers, keeps_own=self.keeps_own)
        size = self.workers * self.batch_size * 5
        self.decks = {epoch: torch.randperm(size) for epoch in range(1, self.epochs + 1)}
        self.read: dict[int, list[int]] = {epoch: [] for epoch in self.decks}
        self.latest = {rank: Place() for rank in range(self.workers)}
        self.before: dict[int, Place | None] = dict.fromkeys(self.latest)

    def rows(self, rank: int, epoch: int) -> list[torch.Tensor]:
        hands = deal_epoch(
            self.decks[epoch], self.crew.generations, epoch, self.workers, self.batch_size
        )
        return list(hands[rank])

    def step(self, rank: int) -> None:
        place = self.latest[rank]
        left = len(self.rows(rank, place.epoch))
        pending = place.pending + 1
        due = pending == self.local_steps or place.done + 1 == left
        after = replace(
            place,
            done=place.done + 1,
            step=place.step + 1,
            round=place.round + due,
            pending=0 if due else pending,
        )
        self.before[rank] = place if due else self.before[rank]
        self.latest[rank] = after
        number = self.crew.present.number
        self.crew = crew.note_step(self.crew, rank, number, place.epoch)

    def can_step(self, rank: int) -> bool:
        """Not more than a round ahead of anyone, but for those that keep their own."""
        place, members = self.latest[rank], self.crew.members
        if place.done == len(self.rows(rank, place.epoch)):
            return False
        slowest = min(self.latest[other].round for other in members)
        return place.round <= slowest + (self.chance.random() < 0.3)

    def lose_some(self) -> None:
        members = sorted(self.crew.members)
        lost = self.chance.sample(members, self.chance.randint(0, len(members) - 1))
        for rank in lost:
            self.crew = crew.lose(self.crew, rank, "killed", 1.0, comes_back=True)
        self.crew = crew.settle(self.crew, 1.0)
        number = self.crew.present.number
        for rank in sorted(self.crew.away):
            if self.chance.random() < 0.5:
                self.crew = crew.note_held(self.crew, rank, Held(generation=number))
        self.crew = crew.settle(self.crew, 1.0)
        if self.crew.stage != Stage.HELD:
            return
        for rank in sorted(self.crew.members):
            report = Held(generation=number, latest=self.latest[rank], before=self.before[rank])
            self.crew = crew.note_held(self.crew, rank, report)
        self.follow(crew.settle(self.crew, 2.0))

    def follow(self, after: Crew) -> None:
        """Count what the next generation says was read, and go where it begins."""
        generation, epoch = after.present, after.present.start.epoch
        for rank in self.crew.present.members:
            rows = self.rows(rank, epoch)
            self.read[epoch] += torch.cat(
                [*rows[: generation.done[rank]], torch.tensor([])]
            ).tolist()
        self.crew = after
        for rank in generation.members:
            self.latest[rank], self.before[rank] = generation.start, None

    def train(self) -> None:
        for epoch in self.decks:
            for _ in range(4):
                for _ in range(self.chance.randint(0, 12)):
                    rank = self.chance.choice(sorted(self.crew.members))
                    if self.can_step(rank):
                        self.step(rank)
                self.lose_some()
            for rank in sorted(self.crew.members):
                rows = self.rows(rank, epoch)
                self.read[epoch] += torch.cat([*rows, torch.tensor([])]).tolist()
                start = replace(self.latest[rank], epoch=epoch + 1, done=0, pending=0)
                rounds = max(place.round for place in self.latest.values()) + 9
                self.latest[rank] = replace(start, round=rounds)
                self.before[rank] = None


@pytest.mark.parametrize("seed", range(40))
def test_every_sample_of_an_epoch_counts_once_whoever_is_lost_or_comes_back(seed: int) -> None:
    chance = random.Random(seed)
    run = Simulated(
        workers=chance.randint(2, 6),
        batch_size=chance.choice([1, 3, 8]),
        epochs=3,
        local_steps=chance.choice([1, 1, 4]),
        keeps_own=chance.random() < 0.3,
        chance=chance,
    )
    run.train()
    assert run.crew.present.number > 0
    for epoch, deck in run.decks.items():
        assert sorted(run.read[epoch]) == sorted(deck.tolist()), f"epoch {epoch}"


@dataclass
class Free:
    """The same without a barrier: whoever is free makes the next step. With a server, a step counts
    when it is in the server's model."""

    workers: int
    has_server: bool
    chance: random.Random
    batch_size: int = 3
    epochs: int = 3

    def __post_init__(self) -> None:
        nodes = self.workers + self.has_server
        self.crew = crew.assemble(nodes, self.workers, is_free=True)
        size = self.workers * self.batch_size * 4
        self.decks = {epoch: torch.randperm(size) for epoch in range(1, self.epochs + 1)}
        self.counted: dict[int, list[int]] = {epoch: [] for epoch in self.decks}
        self.places = {rank: Place() for rank in range(nodes)}
        self.done: dict[int, list[int]] = {rank: [] for rank in range(nodes)}

    def numbers(self, epoch: int) -> list[int]:
        last = epoch * self.workers * 4
        deck, generations = self.decks[epoch], self.crew.generations
        self.dealt = deal_numbered(deck, generations, epoch, self.batch_size, last)
        assert all(0 < len(batch) <= self.batch_size for batch in self.dealt.batches)
        return list(self.dealt.numbers)

    def step(self, rank: int, number: int, epoch: int) -> None:
        """It may be told and not complete, or complete and not be in the server's model."""
        self.crew = crew.note_step(self.crew, rank, self.crew.present.number, epoch, number)
        for other in (rank, *range(self.workers, len(self.places))):
            if self.chance.random() < 0.8:
                place = Place(generation=self.crew.present.number, epoch=epoch)
                fresh = self.places[other] != place
                self.done[other] = [*([] if fresh else self.done[other]), number]
                self.places[other] = place

    def lose_some(self, epoch: int) -> bool:
        """Whether another generation has begun."""
        members = sorted(rank for rank in self.crew.members if rank < self.workers)
        for rank in self.chance.sample(members, self.chance.randint(0, len(members) - 1)):
            self.crew = crew.lose(self.crew, rank, "killed", 1.0, comes_back=True)
        number = self.crew.present.number
        for rank in sorted(self.crew.away):
            if self.chance.random() < 0.5:
                self.crew = crew.note_held(self.crew, rank, Held(generation=number))
        self.crew = crew.settle(self.crew, 1.0)
        if self.crew.stage != Stage.HELD:
            return False
        for rank in sorted(self.crew.members):
            report = Held(generation=number, latest=self.places[rank], read=self.done[rank])
            self.crew = crew.note_held(self.crew, rank, report)
        self.numbers(epoch)
        self.crew = crew.settle(self.crew, 2.0)
        start = self.crew.present.start
        if start.epoch == epoch:
            read = [self.dealt.of(number).tolist() for number in self.crew.present.read]
            self.counted[epoch] += itertools.chain(*read)
        for rank in self.crew.present.members:
            self.places[rank], self.done[rank] = start, []
        return True

    def train(self) -> None:
        for epoch in self.decks:
            left = self.numbers(epoch)
            for _ in range(6):
                for _ in range(min(len(left), self.chance.randint(0, 8))):
                    ranks = [rank for rank in self.crew.members if rank < self.workers]
                    self.step(self.chance.choice(ranks), left.pop(0), epoch)
                if self.lose_some(epoch):
                    left = self.numbers(epoch)
            self.counted[epoch] += torch.cat([*self.dealt.batches, torch.tensor([])]).tolist()
            number = self.crew.present.number
            for rank in self.crew.members:  # all have ended the epoch
                self.places[rank] = Place(generation=number, epoch=epoch + 1)
                self.done[rank] = []


@pytest.mark.parametrize("seed", range(30))
def test_without_a_barrier_every_sample_of_an_epoch_counts_once_too(seed: int) -> None:
    chance = random.Random(seed)
    run = Free(workers=chance.randint(2, 6), has_server=seed % 2 == 0, chance=chance)
    run.train()
    assert run.crew.present.number > 0
    for epoch, deck in run.decks.items():
        assert sorted(run.counted[epoch]) == sorted(deck.tolist()), f"epoch {epoch}"


@pytest.mark.parametrize(
    ("size", "members", "batch"), itertools.product((1, 7, 48), (1, 2, 5), (1, 4))
)
def test_a_deal_has_all_samples_in_steps_of_at_most_a_batch(
    size: int, members: int, batch: int
) -> None:
    deck = torch.randperm(size)
    for owners in (None, torch.arange(size) % 3):
        hands = deal(deck, list(range(members)), batch, owners)
        samples = [int(n) for hand in hands.values() for row in hand for n in row]
        assert sorted(samples) == list(range(size))
        assert len({len(hand) for hand in hands.values()}) == 1
        assert all(len(row) <= batch for hand in hands.values() for row in hand)
        if owners is not None:
            own = [int(n) for row in hands[0] for n in row]
            assert set(torch.arange(size)[owners == 0].tolist()) <= set(own)
