"""Predicted bytes: what a strategy must send, from nothing but its definition.

    python -m analysis.theory --workers 6 --model-bytes 87M

The cost model
--------------
N workers exchange M bytes a round: the gradients or the parameters of one model, after compression.
Counted is what each rank sends and receives as payload. Not modelled are packet headers, the
libraries' own framing, acknowledgements, and pieces of unequal size where M/N is not whole.

Ring all-reduce among g. The M bytes are cut into g pieces of M/g. In g-1 steps everyone passes one
piece to the next on the ring and adds up what arrives, after which everyone owns the sum of one
piece; in g-1 more steps the sums go round. Everyone sends, and receives,

    2 (g-1) M/g  =  2(g-1)/g M.

No all-reduce sends less on average: every piece must leave all but one of its g holders to be
added up, and reach g-1 of them again as a sum.

    single       nobody to talk to: 0
    allreduce    one ring of everybody, g = N: 2(N-1)/N M, rising from M at N = 2 towards 2M
    ring         the same, and so are ddp and a round of local-sgd
    allgather    everyone's M must reach N-1 others: (N-1) M, whichever way they travel
    gather-scatter    a leaf sends its M to the root and gets the mean: M each way; the root has N-1
                 leaves: (N-1) M each way. On average 2(N-1)/N M, as on a ring
    reduce-broadcast  along a binomial tree: rank r hangs below r without its lowest binary 1. A sum
                 of M goes up each edge and the mean down, so a rank sends M for each edge it has.
                 N-1 edges with two ends: 2(N-1)/N M on average; the root has log2 N, rounded up
    parameter-server  a worker sends its M to the server and receives M; the server, a node of its own,
                 receives N M and sends N M
    pairwise     a ring in every group of a round: 2(g-1)/g M for each member of a group of g, so
                 2P/(P+1) M in a full group of P+1, less in a smaller last group, 0 for a worker
                 alone. Ranks differ where groups do, so this follows the schedule round by round.
                 P >= N-1 is one group of everybody: allreduce.

What else is asked for
----------------------
Averaging parameters instead of gradients, adding up instead of averaging, exchanging in buckets and
overlapping change no byte of payload. (More and smaller messages carry more of the library's framing, about
144 bytes each, which is measured and not predicted: with --bucket-mb 0 and many small layers, 10 % and more.)
Compression changes M. With H local steps there is a round every H steps.
Buffers (batch-norm statistics), B bytes: `average` makes them part of what is exchanged, M + B;
`broadcast` sends B down a binomial tree from worker 0, (N-1)/N B on average and log2 N B, rounded up,
from worker 0; `local` sends nothing.

Time
----
A round cannot end before its busiest link has carried its bytes: the largest over all nodes of sent
and received bytes, times 1514/1448 for the headers, over the node's rate (`lower_bound_s`). Latency, the
dependence of one message on another and computing are left out, so this is a lower bound.

Strategies are entries of STRATEGIES: one small function each, from a Setting to a Prediction.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cluster.spec.consensus import choose_schedule
from cluster.spec.records import HEADER_BYTES, SEGMENT_BYTES
from cluster.spec.schedules import groups, period

WIRE_PER_PAYLOAD = (SEGMENT_BYTES + HEADER_BYTES) / SEGMENT_BYTES


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a prediction depends on. `passes` and `schedule` matter to pairwise only."""

    workers: int
    model_bytes: int
    passes: int | None = None
    schedule: str | None = None
    """None and `auto` are what choose_schedule() takes."""
    seed: int = 0
    rounds: int = 1
    """Rounds 0 to rounds-1 are averaged over."""

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("model_bytes", 0), ("rounds", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be {least} or more, not {getattr(self, name)}")


@dataclass(frozen=True)
class Prediction:
    """Bytes a round, by rank; a server is the rank after the last worker's."""

    workers: int
    sent_by_rank: tuple[float, ...]
    received_by_rank: tuple[float, ...]

    @property
    def sent_mean(self) -> float:
        """Over workers."""
        return sum(self.sent_by_rank[: self.workers]) / self.workers

    @property
    def sent_max(self) -> float:
        """Of the busiest node, which may be a server."""
        return max(self.sent_by_rank)

    @property
    def received_mean(self) -> float:
        return sum(self.received_by_rank[: self.workers]) / self.workers

    @property
    def received_max(self) -> float:
        return max(self.received_by_rank)

    def plus(self, other: Prediction) -> Prediction:
        """With another exchange among the workers in the same round."""
        return Prediction(
            self.workers,
            _add(self.sent_by_rank, other.sent_by_rank),
            _add(self.received_by_rank, other.received_by_rank),
        )


def _add(all_nodes: tuple[float, ...], workers: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(map(sum, itertools.zip_longest(all_nodes, workers, fillvalue=0)))


def predict(
    strategy: str,
    *,
    workers: int,
    model_bytes: int,
    passes: int | None = None,
    schedule: str | None = None,
    seed: int = 0,
    rounds: int = 1,
    buffers: str = "local",
    buffer_bytes: int = 0,
) -> Prediction:
    """Bytes sent and received by each rank per round, averaged over rounds 0 to rounds-1."""
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy {strategy!r}; there are {', '.join(STRATEGIES)}")
    setting = Setting(
        workers=workers,
        model_bytes=model_bytes + (buffer_bytes if buffers == "average" else 0),
        passes=passes,
        schedule=schedule,
        seed=seed,
        rounds=rounds,
    )
    predicted = STRATEGIES[strategy](setting)
    if buffers == "broadcast" and strategy != "single":
        return predicted.plus(_down_the_tree(workers, buffer_bytes))
    return predicted


def lower_bound_s(predicted: Prediction, rates_mbit: Sequence[float | None]) -> float:
    """No round can take less than its busiest link: bytes with their headers over the rate.

    A link carries its rate in each direction at the same time; None is one that nobody throttled,
    which bounds nothing. Full packets: 1448 bytes of payload travel as 1514.
    """
    times = [
        max(sent, received) * 8 * WIRE_PER_PAYLOAD / (rate * 1e6)
        for sent, received, rate in zip(
            predicted.sent_by_rank, predicted.received_by_rank, rates_mbit, strict=True
        )
        if rate is not None
    ]
    return max(times, default=0.0)


# --------------------------------------------------------------------------------------- strategies


def _ring_bytes(members: int, model_bytes: int) -> Fraction:
    return Fraction(2 * (members - 1) * model_bytes, members)


def _both_ways(setting: Setting, by_rank: Iterable[Fraction]) -> Prediction:
    """Everyone receives as much as it sends."""
    sent = tuple(float(one) for one in by_rank)
    return Prediction(setting.workers, sent, sent)


def _single(setting: Setting) -> Prediction:
    return _both_ways(setting, [Fraction(0)] * setting.workers)


def _allreduce(setting: Setting) -> Prediction:
    return _both_ways(
        setting, [_ring_bytes(setting.workers, setting.model_bytes)] * setting.workers
    )


def _pairwise(setting: Setting) -> Prediction:
    """Group sizes are counted, not bytes added up, so that 100,000 rounds do not round."""
    if setting.passes is None:
        raise ValueError("pairwise needs passes: how many hops an update travels, 1 to workers - 1")
    schedule = resolve(setting.workers, setting.passes, setting.schedule, setting.seed)
    sent = []
    for sizes in _smaller_groups(setting, setting.passes, schedule):
        sizes[min(setting.passes + 1, setting.workers)] = setting.rounds - sizes.total()
        parts = (times * _ring_bytes(size, setting.model_bytes) for size, times in sizes.items())
        sent.append(sum(parts, Fraction(0)) / setting.rounds)
    return _both_ways(setting, sent)


def resolve(workers: int, passes: int, schedule: str | None, seed: int) -> str:
    if schedule is None or schedule == "auto":
        return choose_schedule(workers, passes, seed).schedule
    return schedule


def _smaller_groups(setting: Setting, passes: int, schedule: str) -> list[Counter[int]]:
    """For each rank, in how many rounds it is in a group of which size, full groups left out.

    A schedule with a period is followed for one period: its round t comes once more in every
    further one. Random groups have to be followed through all rounds, 20 us each for 7 workers.
    """
    counted: list[Counter[int]] = [Counter() for _ in range(setting.workers)]
    if schedule in ("ring", "random") and setting.workers % (passes + 1) == 0:
        return counted  # they cut a line of workers: all groups are full
    repeats = period(setting.workers, passes, schedule) or setting.rounds
    for t in range(min(repeats, setting.rounds)):
        times = (setting.rounds - 1 - t) // repeats + 1
        for members in groups(t, setting.workers, passes, schedule, setting.seed):
            if len(members) < min(passes + 1, setting.workers):
                for rank in members:
                    counted[rank][len(members)] += times
    return counted


def _allgather(setting: Setting) -> Prediction:
    everybody_else = Fraction((setting.workers - 1) * setting.model_bytes)
    return _both_ways(setting, [everybody_else] * setting.workers)


def _gather_scatter(setting: Setting) -> Prediction:
    leaves = setting.workers - 1
    sent = [leaves * setting.model_bytes] + [setting.model_bytes] * leaves
    return _both_ways(setting, map(Fraction, sent))


def _reduce_broadcast(setting: Setting) -> Prediction:
    """Rank r hangs below r without its lowest 1, and sends to its children what it got from there."""
    children = _children(setting.workers)
    links = [children[rank] + (rank > 0) for rank in range(setting.workers)]
    return _both_ways(setting, (Fraction(count * setting.model_bytes) for count in links))


def _parameter_server(setting: Setting) -> Prediction:
    by_rank = [setting.model_bytes] * setting.workers + [setting.workers * setting.model_bytes]
    return _both_ways(setting, map(Fraction, by_rank))


def _down_the_tree(workers: int, size: int) -> Prediction:
    """A broadcast from rank 0: everyone else receives it once, from its parent."""
    children = _children(workers)
    sent = tuple(float(children[rank] * size) for rank in range(workers))
    return Prediction(workers, sent, (0.0,) + (float(size),) * (workers - 1))


def _children(workers: int) -> Counter[int]:
    """How many hang below each rank of a binomial tree."""
    return Counter(rank & (rank - 1) for rank in range(1, workers))


STRATEGIES: dict[str, Callable[[Setting], Prediction]] = {
    "single": _single,
    "allreduce": _allreduce,
    "ring": _allreduce,
    "allgather": _allgather,
    "gather-scatter": _gather_scatter,
    "reduce-broadcast": _reduce_broadcast,
    "parameter-server": _parameter_server,
    "ddp": _allreduce,
    "pairwise": _pairwise,
    "local-sgd": _allreduce,
}
