"""What counts of a run whose members changed (--on-failure continue). Pure.

A step counts where the next generation went on from after it: one that a worker made and that the
others did not complete was made again. Of an epoch that was evaluated again the last score counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.summary.node_log import NodeLog
from cluster.spec.documents.events import Epoch, Event, Result, Step
from cluster.spec.documents.fault_events import Member
from cluster.spec.documents.membership import Generation


@dataclass(frozen=True)
class Stretch:
    """One generation, in numbers."""

    workers: int
    rounds: int


def counted(log: NodeLog, rank: int, generations: Sequence[Generation]) -> NodeLog:
    """A node's events without those that do not count."""
    last_scores = {event.epoch: event for event in log.all(Epoch)}
    results = log.all(Result)
    kept = set(map(id, (*last_scores.values(), *results[-1:], *_steps(log, rank, generations))))
    return NodeLog(
        [e for e in log.events if not isinstance(e, Epoch | Result | Step) or id(e) in kept]
    )


def _steps(log: NodeLog, rank: int, generations: Sequence[Generation]) -> Iterator[Step]:
    for number, steps in _by_generation(log.events):
        following = generations[number + 1] if number + 1 < len(generations) else None
        made: dict[int, int] = {}
        read = set(following.read) if following else ()
        for step in steps:
            made[step.epoch] = made.get(step.epoch, 0) + 1
            if following is None or step.epoch < following.start.epoch:
                yield step
            elif step.epoch > following.start.epoch:
                continue
            elif step.of_all is not None:
                if step.of_all in read:
                    yield step
            elif made[step.epoch] <= following.done.get(rank, 0):
                yield step


def _by_generation(events: Sequence[Event]) -> list[tuple[int, list[Step]]]:
    found: list[tuple[int, list[Step]]] = [(0, [])]
    for event in events:
        if isinstance(event, Member):
            found.append((event.generation, []))
        elif isinstance(event, Step):
            found[-1][1].append(event)
    return found


def stretches(generations: Sequence[Generation], rounds: int, workers: int) -> list[Stretch]:
    """Of a run with so many rounds in all, and so many workers at first."""
    begins = [generation.start.round for generation in generations] + [rounds]
    return [
        Stretch(sum(rank < workers for rank in generation.members), max(0, end - begin))
        for generation, begin, end in zip(generations, begins, begins[1:], strict=False)
    ]
