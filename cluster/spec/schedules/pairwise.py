"""Groups of strategy pairwise at round t: a pure function, so no coordinator is needed.

    python3 -m workloads.groups --workers 6 --passes 2     shows every schedule, and what auto takes

A round cuts the N workers into groups of at most P+1 (P = passes) and every group replaces its
members' values by the group's mean. How fast that mixes is worked out in consensus.py.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from cluster.spec.errors import one_of

Partition = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Repeat:
    """Round t + rounds is round t with its ranks renamed."""

    rounds: int
    shift: Literal[0, 1] | None
    """How many places ranks move on; None: the renaming is random."""


EVERY_ROUND = Repeat(1, 0)


def groups(round_index: int, workers: int, passes: int, schedule: str, seed: int) -> Partition:
    """The groups of this round, which partition range(workers).

    Members ascend and groups go by their first member, so that all members see one and the same
    order: it is the ring they exchange on.
    """
    repeats = period(workers, passes, schedule)
    if round_index < 0:
        raise ValueError(f"round must be 0 or more, not {round_index}")
    if repeats is not None:  # then the seed plays no part either: fewer entries in the cache
        return _partition(round_index % repeats, workers, passes, schedule, 0)
    return _partition(round_index, workers, passes, schedule, seed)


def group_of(
    rank: int, round_index: int, workers: int, passes: int, schedule: str, seed: int
) -> tuple[int, ...]:
    """The group this rank averages with in this round, itself included."""
    for members in groups(round_index, workers, passes, schedule, seed):
        if rank in members:
            return members
    raise ValueError(f"rank must be 0 to {workers - 1}, not {rank}")


def period(workers: int, passes: int, schedule: str) -> int | None:
    """After how many rounds the groups repeat; None if they never do."""
    check(workers, passes, schedule)
    return 1 if passes >= workers - 1 else SCHEDULES[schedule].period(workers, passes)


def cycle_length(workers: int, passes: int, schedule: str) -> int:
    """Rounds of one sweep: all dimensions of a grid, all shifts of a ring.

    A ragged grid starts its next sweep rotated by one place, so its period is N cycles. Random
    groups have no cycle: theirs is the fewest rounds until a value can depend on all workers.
    """
    check(workers, passes, schedule)
    return 1 if passes >= workers - 1 else SCHEDULES[schedule].cycle(workers, passes)


def repeat(workers: int, passes: int, schedule: str) -> Repeat:
    """When the same groups come again, up to a renaming of the ranks."""
    check(workers, passes, schedule)
    return EVERY_ROUND if passes >= workers - 1 else SCHEDULES[schedule].repeat(workers, passes)


def check(workers: int, passes: int, schedule: str) -> None:
    if schedule == "auto":
        raise ValueError("schedule 'auto' must first be resolved by choose_schedule()")
    one_of("schedule", schedule, SCHEDULES)
    if workers < 1:
        raise ValueError(f"workers must be 1 or more, not {workers}")
    if passes < 1:
        raise ValueError(f"passes must be 1 or more, not {passes}")
    if SCHEDULES[schedule].pairs_only and 1 < passes < workers - 1:
        raise ValueError(
            f"schedule {schedule!r} makes pairs: it needs passes 1, not {passes}; "
            "'grid' does the same for larger groups"
        )


# Every worker asks once a step. 64 rounds of 128 pairs are 0.5 MB, and hold a whole period of any
# exact schedule; the longer periods are recomputed as they go by, which takes some 0.1 ms.
@lru_cache(maxsize=64)
def _partition(round_index: int, workers: int, passes: int, schedule: str, seed: int) -> Partition:
    if passes >= workers - 1:
        return (tuple(range(workers)),)
    cut = SCHEDULES[schedule].cut(round_index, workers, passes, seed)
    return tuple(sorted(tuple(sorted(members)) for members in cut))


# ---------------------------------------------------------------------------------------- schedules


def _chop(order: list[int], size: int) -> Iterator[list[int]]:
    return (order[start : start + size] for start in range(0, len(order), size))


def _ring(round_index: int, workers: int, passes: int, _seed: int) -> Iterable[Sequence[int]]:
    order = [(round_index + place) % workers for place in range(workers)]
    return _chop(order, passes + 1)


def _ring_period(workers: int, passes: int) -> int:
    """Shifting by P+1 gives the same groups again, unless a smaller last group walks round."""
    return passes + 1 if workers % (passes + 1) == 0 else workers


def _random(round_index: int, workers: int, passes: int, seed: int) -> Iterable[Sequence[int]]:
    order = list(range(workers))
    # Seeded with text, because that is hashed the same way on every machine and in every process.
    random.Random(f"{seed} {round_index}").shuffle(order)
    return _chop(order, passes + 1)


def _grid(round_index: int, workers: int, passes: int, _seed: int) -> Iterable[Sequence[int]]:
    """Groups of those who differ only in one digit; digit 0 (the largest radix) is the first.

    A ragged grid turns by one place each cycle, so that no worker stays in an incomplete line. A
    complete grid repeats after one cycle and therefore never gets to turn, which would break the
    promise that ANY cycle's length of rounds is exact.
    """
    shape = grid_shape(workers, passes)
    turn, dimension = divmod(round_index, len(shape))
    radix, stride = shape[dimension], math.prod(shape[:dimension])
    lines: dict[int, list[int]] = {}
    for place in range(workers):
        digit = place // stride % radix
        lines.setdefault(place - digit * stride, []).append((place + turn) % workers)
    return lines.values()


def _grid_cycle(workers: int, passes: int) -> int:
    return len(grid_shape(workers, passes))


def _grid_repeat(workers: int, passes: int) -> Repeat:
    shape = grid_shape(workers, passes)
    return Repeat(len(shape), 0 if math.prod(shape) == workers else 1)


def _grid_period(workers: int, passes: int) -> int:
    found = _grid_repeat(workers, passes)
    return found.rounds * (workers if found.shift else 1)


@lru_cache(maxsize=4096)
def grid_shape(workers: int, passes: int) -> tuple[int, ...]:
    """Radices, each at most P+1, of the smallest complete grid that holds all workers.

    Of the shapes of one size the one with the fewest dimensions, hence rounds, and then the fewest
    bytes: a cycle costs 2(1 - 1/f) M for every radix f. If N has no complete grid, some places of
    the next larger one stay empty. As few empty places as possible is what mixes: 17 workers in
    groups of 4 shrink the residual to 0.45 per M sent on 3x3x2, but to 0.76 on 4x4x4.
    """
    sizes = itertools.count(workers)
    size = next(size for size in sizes if largest_prime(size) <= passes + 1)
    shapes = _factorings(size, passes + 1)
    return min(shapes, key=lambda shape: (len(shape), -sum(1 / radix for radix in shape)))


def _factorings(number: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Every way to write number as a product of non-increasing factors from 2 to largest."""
    if number == 1:
        yield ()
    for factor in range(min(number, largest), 1, -1):
        if number % factor == 0:
            for rest in _factorings(number // factor, factor):
                yield (factor, *rest)


def largest_prime(number: int) -> int:
    """The largest prime factor; 1 has none and gives 1."""
    largest, factor = 1, 2
    while factor * factor <= number:
        if number % factor == 0:
            largest, number = factor, number // factor
        else:
            factor += 1
    return max(largest, number)


def _fewest_rounds(workers: int, passes: int) -> int:
    """Rounds until a value can depend on all workers: after t it depends on at most (P+1)^t."""
    return next(t for t in itertools.count() if (passes + 1) ** t >= workers)


@dataclass(frozen=True)
class Schedule:
    """How a schedule cuts the workers, for P < N-1; beyond that all workers are one group."""

    summary: str
    cut: Callable[[int, int, int, int], Iterable[Sequence[int]]]
    """(round, workers, passes, seed) -> groups."""
    cycle: Callable[[int, int], int]
    period: Callable[[int, int], int | None]
    repeat: Callable[[int, int], Repeat]
    pairs_only: bool = False


# In order of preference: of equally good ones, `auto` takes the first. Pairs with partners at
# distance 1, 2, 4, ... are the grid whose radices are all 2; they carry their well-known name.
SCHEDULES: dict[str, Schedule] = {
    "exponential": Schedule(
        "pairs at distance 1, 2, 4, ...; exact after log2 N rounds if N is a power of two",
        *(_grid, _grid_cycle, _grid_period, _grid_repeat),
        pairs_only=True,
    ),
    "grid": Schedule(
        "rows, then columns, of a grid of the workers; exact after one cycle where N factors",
        *(_grid, _grid_cycle, _grid_period, _grid_repeat),
    ),
    "ring": Schedule(
        "consecutive neighbours, shifted by one place each round",
        *(_ring, _ring_period, _ring_period, lambda _workers, _passes: Repeat(1, 1)),
    ),
    "random": Schedule(
        "a seeded shuffle cut into groups",
        *(_random, _fewest_rounds, lambda _workers, _passes: None),
        lambda _workers, _passes: Repeat(1, None),
    ),
}
