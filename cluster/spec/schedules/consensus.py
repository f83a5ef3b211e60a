"""Consensus of a schedule: how fast workers come to the global mean, for how many bytes; `auto`.

A round replaces every group's values by their mean: x <- W_t x, where W_t holds 1/g for two members
of the same group of g and 0 elsewhere. All that a Plan says follows from this.

Mean. The rows and columns of W_t add up to 1: whatever the groups, the global mean stays.

Bytes. A group of g runs a ring all-reduce of M bytes: g-1 steps of M/g to add up the pieces, g-1 to
hand round the sums, so each member sends 2(g-1)/g M. Over all members that is 2(g-1) M; over all G
groups 2(N-G) M; so a worker sends 2(N-G)/N M on average, whatever the sizes of the groups.

Exact consensus. J = 11'/N averages everybody; rounds 1..t are exact if A = W_t ... W_1 = J.
Grid: write the rank in mixed radix; averaging over one digit at a time averages over all of them
after one cycle, so N = f1 f2 ... with every f <= P+1 is exact, from whichever round one starts.
Nothing else can be: A's entries are fractions whose denominators are products of group sizes, and
1/N is one of those only if every prime factor of N divides some group size, hence is <= P+1. Then
N is a product of such factors. So some schedule is exact if and only if the grid is.

Residual. If every worker starts with independent noise of variance 1, the squared distances from
the mean add up to E|Ax - Jx|^2 = |A - J|^2 (Frobenius) after t rounds, |I - J|^2 = N-1 before the
first. The residual is the root of their ratio: 1 at the start, 0 at consensus.
"""

import math
import operator
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from cluster.spec.schedules.pairwise import (
    SCHEDULES,
    Partition,
    check,
    cycle_length,
    grid_shape,
    groups,
    largest_prime,
)

HORIZON = 32
"""Rounds of a Plan: four cycles of 256 workers in pairs."""

SCHEDULE_CHOICES = {
    **{name: schedule.summary for name, schedule in SCHEDULES.items()},
    "auto": "the one that reaches consensus for the fewest bytes; says which and why",
}
"""What --schedule takes, and what it means."""

NOISE = 1e-9
"""Residuals below this are not compared: rounding errors come near."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a schedule does in its first rounds. Bytes are in units of M, per worker (mean)."""

    workers: int
    passes: int
    schedule: str
    seed: int
    cycle: tuple[Partition, ...]
    """The groups of each round of the first cycle."""
    rounds_to_exact: int | None
    """From round 0; None if the horizon does not get there."""
    residuals: tuple[float, ...]
    """After each round of the horizon; exactly 0 from consensus on."""
    sent_m_by_round: tuple[float, ...]
    """In each round of the horizon."""

    @property
    def sent_m_per_round(self) -> float:
        """Mean over a cycle. Every cycle sends the same, for turning a grid only renames ranks."""
        return sum(_sent_m(partition) for partition in self.cycle) / len(self.cycle)

    @property
    def sent_m_to_exact(self) -> float | None:
        if self.rounds_to_exact is None:
            return None
        return sum(self.sent_m_by_round[: self.rounds_to_exact])

    @property
    def shrink_per_m(self) -> float:
        """The factor by which the residual shrinks for each M a worker sends; 0 once exact.

        residual ** (1 / bytes) at the end of the horizon, or where it sinks into the noise.
        """
        if self.rounds_to_exact is not None:
            return 0.0
        last = max((t for t, left in enumerate(self.residuals) if left > NOISE), default=0)
        return float(self.residuals[last] ** (1 / sum(self.sent_m_by_round[: last + 1])))


@dataclass(frozen=True)
class Choice:
    """The schedule that `auto` stands for, and one sentence that says why."""

    schedule: str
    why: str


@lru_cache(maxsize=256)
def plan(workers: int, passes: int, schedule: str, seed: int, horizon: int = HORIZON) -> Plan:
    """Follow a schedule for `horizon` rounds. Takes horizon * N^2 steps: 0.1 s at N = 256."""
    if horizon < 1:
        raise ValueError(f"horizon must be 1 round or more, not {horizon}")
    rounds = [groups(t, workers, passes, schedule, seed) for t in range(horizon)]
    exact = _rounds_to_exact(rounds, workers)
    residuals = _residuals(tuple(rounds if exact is None else rounds[: max(exact - 1, 0)]), workers)
    first = range(cycle_length(workers, passes, schedule))
    return Plan(
        workers=workers,
        passes=passes,
        schedule=schedule,
        seed=seed,
        cycle=tuple(groups(t, workers, passes, schedule, seed) for t in first),
        rounds_to_exact=exact,
        residuals=residuals + (0.0,) * (horizon - len(residuals)),
        sent_m_by_round=tuple(_sent_m(partition) for partition in rounds),
    )


def available(passes: int) -> tuple[str, ...]:
    """The schedules worth comparing for groups of P+1, in order of preference."""
    return tuple(name for name in SCHEDULES if passes == 1 or not SCHEDULES[name].pairs_only)


@lru_cache(maxsize=256)
def choose_schedule(workers: int, passes: int, seed: int) -> Choice:
    """What `auto` stands for: exact consensus in the fewest bytes.

    Where nothing is exact: the smallest residual per byte over the horizon (`Plan.shrink_per_m`).
    """
    check(workers, passes, "grid")
    names = available(passes)
    if passes >= workers - 1:
        everybody = _sent_m(groups(0, workers, passes, "ring", seed))
        return Choice(
            "ring",
            f"passes {passes} reaches all of {count_text(workers, 'worker')}, so every schedule is"
            f" one group of everybody, exact in every round for {everybody:.3g} M sent per worker",
        )
    if math.prod(grid_shape(workers, passes)) == workers:  # then, and only then, one is exact
        return _cheapest_exact(workers, passes, seed, names)
    shrinks = {name: plan(workers, passes, name, seed).shrink_per_m for name in names}
    best = min(names, key=lambda name: round(shrinks[name], 9))
    others = ", ".join(f"{name} {shrinks[name]:.3f}" for name in names if name != best)
    return Choice(
        best,
        f"{workers} has the prime factor {largest_prime(workers)}, so groups of at most "
        f"{passes + 1} are never exact, and {best} leaves the least for its bytes: every M sent "
        f"per worker multiplies the residual by {shrinks[best]:.3f} ({others})",
    )


def resolve(workers: int, passes: int, schedule: str | None, seed: int) -> str:
    """The schedule itself; for None and `auto` what choose_schedule() takes."""
    if schedule is None or schedule == "auto":
        return choose_schedule(workers, passes, seed).schedule
    return schedule


def _cheapest_exact(workers: int, passes: int, seed: int, names: tuple[str, ...]) -> Choice:
    """Bytes are compared as whole numbers of M 2/N, N-G a round, so that a tie is a tie.

    Residuals are not looked at, which spares the N^2 of a full plan.
    """
    costs: dict[str, tuple[int, int]] = {}
    for name in names:
        rounds = [groups(t, workers, passes, name, seed) for t in range(HORIZON)]
        exact = _rounds_to_exact(rounds, workers)
        if exact is not None:
            costs[name] = (sum(workers - len(cut) for cut in rounds[:exact]), exact)
    best = min(costs, key=lambda name: costs[name][0])
    sent_m = 2 * costs[best][0] / workers
    return Choice(
        best,
        f"{best} reaches exact consensus in {count_text(costs[best][1], 'round')} for {sent_m:.3g}"
        f" M sent per worker, and none of {', '.join(names)} gets there for less",
    )


def count_text(number: int, noun: str) -> str:
    plural = "passes" if noun == "pass" else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _sent_m(partition: Partition) -> float:
    workers = sum(len(members) for members in partition)
    return 2 * (workers - len(partition)) / workers


def _rounds_to_exact(rounds: Sequence[Partition], workers: int) -> int | None:
    """The first t after which A = J, decided without rounding.

    Large random whole numbers stand for the start: if they all become equal, so does (but for a
    chance below 2^-60) every start. Fractions are avoided by scaling all workers alike each round.
    """
    source = random.Random(0)
    held = [source.getrandbits(64) for _ in range(workers)]
    if workers == 1:
        return 0
    for t, partition in enumerate(rounds, start=1):
        scale = math.lcm(*(len(members) for members in partition))
        for members in partition:
            mean = sum(held[m] for m in members) * (scale // len(members))
            for m in members:
                held[m] = mean
        if all(value == held[0] for value in held):
            return t
    return None


@lru_cache(maxsize=8)  # exponential and grid can be the same groups
def _residuals(rounds: tuple[Partition, ...], workers: int) -> tuple[float, ...]:
    """|A - J| / |I - J| after each round. Members of a group share one row of A."""
    consensus = [1 / workers] * workers
    rows = [[float(i == j) for j in range(workers)] for i in range(workers)]
    residuals = []
    for partition in rounds:
        square = 0.0
        for members in partition:
            total = rows[members[0]]
            for m in members[1:]:
                total = list(map(operator.add, total, rows[m]))
            mean = [entry / len(members) for entry in total]
            for m in members:
                rows[m] = mean
            square += len(members) * math.dist(mean, consensus) ** 2
        residuals.append(math.sqrt(square / (workers - 1)))
    return tuple(residuals)
