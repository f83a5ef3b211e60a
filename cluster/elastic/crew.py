"""Who trains together: the states of a run with --on-failure continue, and their changes. Pure.

    TRAINING  --a member is lost, or a node is back-->  HELD
    HELD      --a member is lost-->                     HELD
    HELD      --all members said where they stopped-->  TRAINING, in the next generation
    TRAINING  --all members have ended-->               OVER
    any       --a node is lost that the run needs, or the last one-->  FAILED

Nothing here looks at a clock: the host says what happened (lose, note_held, note_end, note_step,
allow) and then asks what follows (settle). Times are handed in to be recorded.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cluster.spec.documents.events import Held
from cluster.spec.documents.membership import Generation, Place


class Stage(StrEnum):
    TRAINING = "training"
    HELD = "held"
    OVER = "over"
    FAILED = "failed"


@dataclass(frozen=True)
class Crew:
    """A run's members, and what is known of the others."""

    workers: int
    generations: tuple[Generation, ...]
    keeps_own: bool = False
    """Whether workers' models differ by design (pairwise): each goes on from its own last step.
    Otherwise all go back to the last round that all of them completed."""
    is_free: bool = False
    """Whether there is no barrier: steps are those of whoever is free, by their numbers. Each
    worker goes on from its own last step; a server's model is where its pushes are."""
    needed: frozenset[int] = frozenset()
    """Nodes without which there is no run: a parameter server."""
    stage: Stage = Stage.TRAINING
    away: Mapping[int, str] = field(default_factory=dict)
    """Nodes that are not members, and why."""
    barred: frozenset[int] = frozenset()
    """Those that cannot come back, or not yet."""
    waiting: frozenset[int] = frozenset()
    """Those that say that they could."""
    ended: frozenset[int] = frozenset()
    """Members that have finished the run."""
    reports: Mapping[int, Held] = field(default_factory=dict)
    """Where members stopped, while the generation is held."""
    progress: Mapping[int, Place] = field(default_factory=dict)
    """How far each member is in this generation, by its events."""
    told: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Numbers of the steps that each has made there, without a barrier."""
    why: tuple[str, ...] = ()
    """What ended, or ends, the present generation."""
    noticed_t: float = 0.0

    @property
    def present(self) -> Generation:
        return self.generations[-1]

    @property
    def members(self) -> frozenset[int]:
        """Those of the present generation that are still at work."""
        return frozenset(self.present.members) - self.ended - self.away.keys()


def assemble(
    nodes: int,
    workers: int,
    *,
    keeps_own: bool = False,
    is_free: bool = False,
    absent: Collection[int] = (),
) -> Crew:
    """The first generation; `absent` are nodes that join later."""
    members = [rank for rank in range(nodes) if rank not in absent]
    return Crew(
        workers=workers,
        generations=(Generation(number=0, members=members),),
        keeps_own=keeps_own or is_free,
        is_free=is_free,
        needed=frozenset(range(workers, nodes)),
        away=dict.fromkeys(absent, "has not joined yet"),
        barred=frozenset(absent),
    )


def lose(crew: Crew, rank: int, why: str, t: float, *, comes_back: bool) -> Crew:
    """A node does not go on; `comes_back`: it may when it says so."""
    if crew.stage in (Stage.OVER, Stage.FAILED):
        return crew
    barred = crew.barred - {rank} if comes_back else crew.barred | {rank}
    lost = replace(crew, barred=barred, waiting=crew.waiting - {rank})
    if rank not in crew.members:
        return lost if rank in crew.away else replace(lost, barred=crew.barred)
    if rank in crew.needed:
        return replace(lost, stage=Stage.FAILED, away={**crew.away, rank: why}, why=(why,))
    held = _hold(lost, why, t)
    reports = {other: held.reports[other] for other in held.reports if other != rank}
    return replace(held, away={**crew.away, rank: why}, reports=reports)


def allow(crew: Crew, rank: int) -> Crew:
    """A node that is away may come back, when it says that it can."""
    return replace(crew, barred=crew.barred - {rank})


def note_end(crew: Crew, rank: int) -> Crew:
    return replace(crew, ended=crew.ended | {rank}) if rank in crew.members else crew


def note_step(
    crew: Crew, rank: int, generation: int, epoch: int, number: int | None = None
) -> Crew:
    """A member has made a step, or has begun (epoch 0), in this generation; `number` of the step
    among those of all workers, without a barrier."""
    before = crew.progress.get(rank)
    is_same = before and (before.generation, before.epoch) == (generation, epoch)
    done = (before.done if before and is_same else 0) + (epoch > 0)
    place = Place(generation=generation, epoch=epoch, done=done)
    if number is not None:
        before_it = crew.told.get(rank, ()) if is_same else ()
        crew = replace(crew, told={**crew.told, rank: (*before_it, number)})
    return replace(crew, progress={**crew.progress, rank: place})


def note_held(crew: Crew, rank: int, held: Held) -> Crew:
    """A node has stopped, and waits for the next generation."""
    if held.generation != crew.present.number:
        return crew  # of one that has ended
    if rank in crew.away:
        return replace(crew, waiting=crew.waiting | {rank})
    if rank in crew.members and crew.stage == Stage.HELD:
        return replace(crew, reports={**crew.reports, rank: held})
    return crew


def settle(crew: Crew, t: float, blocked: Collection[int] = ()) -> Crew:
    """What follows from all that happened; `blocked` are nodes that are frozen or out of reach."""
    if crew.stage in (Stage.OVER, Stage.FAILED):
        return crew
    if not crew.members:
        is_over = bool(crew.ended)
        why = crew.why if is_over else (*crew.why, "no node is left")
        return replace(crew, stage=Stage.OVER if is_over else Stage.FAILED, why=why)
    if not any(rank < crew.workers for rank in crew.members):
        if crew.ended:  # the server is about to end as well
            return crew if crew.stage == Stage.TRAINING else replace(crew, stage=Stage.OVER)
        return replace(crew, stage=Stage.FAILED, why=(*crew.why, "no worker is left"))
    back = sorted(crew.waiting - crew.barred - set(blocked)) if not crew.ended else []
    if back and crew.stage == Stage.TRAINING:
        crew = _hold(crew, ", ".join(f"node{rank}" for rank in back) + " can take part again", t)
    if crew.stage == Stage.HELD and crew.reports.keys() >= crew.members:
        return _form(crew, back, t)
    return crew


def _hold(crew: Crew, why: str, t: float) -> Crew:
    if crew.stage == Stage.HELD:
        return replace(crew, why=(*crew.why, why))
    return replace(crew, stage=Stage.HELD, why=(why,), noticed_t=t, reports={})


def _form(crew: Crew, back: Sequence[int], t: float) -> Crew:
    places = {rank: place for rank in crew.members if (place := choose_place(crew, rank))}
    members = sorted(crew.members | set(back))
    donors = sorted(rank for rank in places if rank < crew.workers)
    start, done, read = crew.present.start, dict[int, int](), list[int]()
    if donors:
        start = _meet(
            crew, {rank: places[rank] for rank in places if crew.is_free or rank in donors}
        )
        with_place = {rank: places[rank] for rank in donors}
        done = {} if crew.is_free else _count_done(crew, start.epoch, with_place)
        read = _find_read(crew, start.epoch) if crew.is_free else []
    elif crew.present.donor is not None:
        why = (*crew.why, "no node is left that has the model")
        return replace(crew, stage=Stage.FAILED, why=why)
    generation = Generation(
        number=crew.present.number + 1,
        members=members,
        start=replace(start, generation=crew.present.number + 1, done=0),
        done=done,
        read=read,
        joiners=[rank for rank in members if rank not in places and rank < crew.workers]
        if donors
        else [],
        donor=donors[0] if donors else None,
        why=list(crew.why),
        noticed_t=crew.noticed_t,
        t=t,
    )
    return replace(
        crew,
        stage=Stage.TRAINING,
        generations=(*crew.generations, generation),
        away={rank: why for rank, why in crew.away.items() if rank not in back},
        waiting=frozenset(),
        reports={},
        progress={},
        told={},
        why=(),
    )


def last_common_round(reports: Mapping[int, Held], members: Collection[int]) -> int:
    """The last round that all of them completed."""
    return min(held.latest.round for r, held in reports.items() if r in members and held.latest)


def choose_place(crew: Crew, rank: int) -> Place | None:
    """Where a member goes on; None where it has no state that fits the others'."""
    held = crew.reports[rank]
    if held.latest is None or crew.keeps_own:
        return held.latest
    rounds = last_common_round(crew.reports, crew.members)
    fitting = [p for p in (held.latest, held.before) if p is not None and p.round <= rounds]
    return fitting[0] if fitting else None


def _meet(crew: Crew, places: Mapping[int, Place]) -> Place:
    """Where they go on together.

    A member in an earlier epoch has ended it: the others could not have begun theirs otherwise.
    """
    furthest = max if crew.keeps_own else min
    return Place(
        epoch=max(place.epoch for place in places.values()),
        step=furthest(place.step for place in places.values()),
        round=furthest(place.round for place in places.values()),
        pending=0 if crew.is_free else min(place.pending for place in places.values()),
    )


def _count_done(crew: Crew, epoch: int, places: Mapping[int, Place]) -> dict[int, int]:
    """What each has read of the present generation's deal of an epoch."""
    number = crew.present.number
    here = {r: p for r, p in places.items() if (p.generation, p.epoch) == (number, epoch)}
    done = {rank: place.done for rank, place in here.items()}
    # What a lost worker did since the last round is lost with it.
    with_all = max((max(0, place.done - place.pending) for place in here.values()), default=0)
    for rank in {rank for rank in crew.present.members if rank < crew.workers} - places.keys():
        seen = crew.progress.get(rank)
        own = seen.done if seen and (seen.generation, seen.epoch) == (number, epoch) else 0
        done[rank] = own if crew.keeps_own else with_all
    return dict(sorted(done.items()))


def _find_read(crew: Crew, epoch: int) -> list[int]:
    """Numbers of the steps of the present generation, in an epoch, that count: those in a server's
    model; without one those that members have completed, and that lost workers have told of."""
    here = (crew.present.number, epoch)
    servers = [rank for rank in crew.members if rank >= crew.workers]
    found: set[int] = set()
    for rank in servers or crew.members:
        held = crew.reports[rank]
        if held.latest and (held.latest.generation, held.latest.epoch) == here:
            found |= set(held.read)
    for rank in set(crew.present.members) - crew.members if not servers else ():
        seen = crew.progress.get(rank)
        if seen and (seen.generation, seen.epoch) == here:
            found |= set(crew.told.get(rank, ()))
    return sorted(found)
