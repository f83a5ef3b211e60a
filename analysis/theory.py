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
    ring         the same, and so is a round of local-sgd
    allgather    everyone's M must reach N-1 others: (N-1) M, whichever way they travel
    gather-scatter    a leaf sends its M to the root and gets the mean: M each way; the root has N-1
                 leaves: (N-1) M each way. On average 2(N-1)/N M, as on a ring
    reduce-broadcast  along a binomial tree: rank r hangs below r without its lowest binary 1. A sum
                 of M goes up each edge and the mean down, so a rank sends M for each edge it has.
                 N-1 edges with two ends: 2(N-1)/N M on average; the root has log2 N, rounded up
    pairwise     a ring in every group of a round: 2(g-1)/g M for each member of a group of g, so
                 2P/(P+1) M in a full group of P+1, less in a smaller last group, 0 for a worker
                 alone. Ranks differ where groups do, so this follows the schedule round by round.
                 P >= N-1 is one group of everybody: allreduce.

Strategies are entries of STRATEGIES: one small function each, from a Setting to a Prediction.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from cluster.units import bytes_text
from workloads.consensus import choose_schedule
from workloads.groups import groups, period


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
    """Bytes a round, by rank."""

    sent_by_rank: tuple[float, ...]
    received_by_rank: tuple[float, ...]

    @property
    def sent_mean(self) -> float:
        return sum(self.sent_by_rank) / len(self.sent_by_rank)

    @property
    def sent_max(self) -> float:
        return max(self.sent_by_rank)

    @property
    def received_mean(self) -> float:
        return sum(self.received_by_rank) / len(self.received_by_rank)

    @property
    def received_max(self) -> float:
        return max(self.received_by_rank)


def predict(
    strategy: str,
    *,
    workers: int,
    model_bytes: int,
    passes: int | None = None,
    schedule: str | None = None,
    seed: int = 0,
    rounds: int = 1,
) -> Prediction:
    """Bytes sent and received by each rank per round, averaged over rounds 0 to rounds-1."""
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy {strategy!r}; there are {', '.join(STRATEGIES)}")
    setting = Setting(
        workers=workers,
        model_bytes=model_bytes,
        passes=passes,
        schedule=schedule,
        seed=seed,
        rounds=rounds,
    )
    return STRATEGIES[strategy](setting)


def sent_per_round(
    strategy: str,
    *,
    workers: int,
    model_bytes: int,
    passes: int | None = None,
    schedule: str | None = None,
    seed: int = 0,
    rounds: int = 1,
) -> tuple[float, ...]:
    """Bytes sent by each rank per round, averaged over rounds 0 to rounds-1."""
    return predict(
        strategy,
        workers=workers,
        model_bytes=model_bytes,
        passes=passes,
        schedule=schedule,
        seed=seed,
        rounds=rounds,
    ).sent_by_rank


# --------------------------------------------------------------------------------------- strategies


def _ring_bytes(members: int, model_bytes: int) -> Fraction:
    return Fraction(2 * (members - 1) * model_bytes, members)


def _both_ways(by_rank: Iterable[Fraction]) -> Prediction:
    """On a ring everyone receives as much as it sends."""
    sent = tuple(float(one) for one in by_rank)
    return Prediction(sent, sent)


def _single(setting: Setting) -> Prediction:
    return _both_ways([Fraction(0)] * setting.workers)


def _allreduce(setting: Setting) -> Prediction:
    return _both_ways([_ring_bytes(setting.workers, setting.model_bytes)] * setting.workers)


def _pairwise(setting: Setting) -> Prediction:
    """Group sizes are counted, not bytes added up, so that 100,000 rounds do not round."""
    if setting.passes is None:
        raise ValueError("pairwise needs passes: how many hops an update travels, 1 to workers - 1")
    schedule = _resolve(setting.workers, setting.passes, setting.schedule, setting.seed)
    sent = []
    for sizes in _smaller_groups(setting, setting.passes, schedule):
        sizes[min(setting.passes + 1, setting.workers)] = setting.rounds - sizes.total()
        parts = (times * _ring_bytes(size, setting.model_bytes) for size, times in sizes.items())
        sent.append(sum(parts, Fraction(0)) / setting.rounds)
    return _both_ways(sent)


def _resolve(workers: int, passes: int, schedule: str | None, seed: int) -> str:
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
    return _both_ways([everybody_else] * setting.workers)


def _gather_scatter(setting: Setting) -> Prediction:
    leaves = setting.workers - 1
    sent = [leaves * setting.model_bytes] + [setting.model_bytes] * leaves
    return _both_ways(map(Fraction, sent))


def _reduce_broadcast(setting: Setting) -> Prediction:
    """Rank r hangs below r without its lowest 1, and sends to its children what it got from there."""
    children = Counter(rank & (rank - 1) for rank in range(1, setting.workers))
    links = [children[rank] + (rank > 0) for rank in range(setting.workers)]
    return _both_ways(Fraction(count * setting.model_bytes) for count in links)


STRATEGIES: dict[str, Callable[[Setting], Prediction]] = {
    "single": _single,
    "allreduce": _allreduce,
    "ring": _allreduce,
    "allgather": _allgather,
    "gather-scatter": _gather_scatter,
    "reduce-broadcast": _reduce_broadcast,
    "pairwise": _pairwise,
    "local-sgd": _allreduce,
}


# ------------------------------------------------------------------------------------- command line


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)", text)
    number = Fraction(match[1]) * 1000 ** " kMG".index(match[2] or " ") if match else Fraction(0)
    if number < 1 or number.denominator != 1:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of bytes such as 87160, 87k, 4.5M or 1G, not {text!r}"
        )
    return int(number)


def _passes(text: str) -> list[int]:
    values = [int(part) if part.isdecimal() else 0 for part in text.split(",")]
    if min(values) < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, such as 1 or 1,2,4, not {text!r}")
    return values


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m analysis.theory",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Predict the bytes each worker sends in a round, payload only, by strategy.",
        epilog="sent      by a worker in a round: mean over workers and rounds\n"
        "busiest   the same for the worker that sends most\n"
        "x M       sent, in units of the model's bytes\n\n"
        "example: python -m analysis.theory --workers 6 --model-bytes 87M",
    )
    parser.add_argument("--workers", type=int, required=True, metavar="N", help="1 to 1024")
    parser.add_argument(
        "--model-bytes", type=_bytes, required=True, metavar="M", help="k, M, G are powers of 1000"
    )
    parser.add_argument(
        "--passes", type=_passes, metavar="P[,P]", help="for pairwise (default: 1 to N-1)"
    )
    parser.add_argument("--schedule", default="ring", help="for pairwise (default: ring)")
    parser.add_argument("--seed", type=int, default=0, help="of the random schedule (default: 0)")
    parser.add_argument(
        "--rounds", type=int, help="to average over (default: until the groups repeat, or 1000)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    if not 1 <= args.workers <= 1024:
        parser.error(f"--workers must be 1 to 1024, not {args.workers}")
    if args.rounds is not None and args.rounds < 1:
        parser.error(f"--rounds must be 1 or more, not {args.rounds}")
    try:
        print("\n".join(_table(args)))
    except ValueError as refused:
        parser.error(str(refused))
    return 0


def _table(args: argparse.Namespace) -> Iterator[str]:
    yield f"N = {args.workers} workers, M = {args.model_bytes:,} bytes"
    yield ""
    yield f"{'strategy':<18}{'passes':>6}  {'schedule':<12}{'sent':>12}{'busiest':>12}{'x M':>9}"
    for strategy in STRATEGIES:
        if strategy != "pairwise":
            yield _line(args, strategy, None)
        else:
            for passes in args.passes or _some_passes(args.workers, args.schedule):
                yield _line(args, strategy, passes)


def _line(args: argparse.Namespace, strategy: str, passes: int | None) -> str:
    schedule, rounds = "", args.rounds or 1
    if passes is not None:
        schedule = _resolve(args.workers, passes, args.schedule, args.seed)
        rounds = args.rounds or period(args.workers, passes, schedule) or 1000
    predicted = predict(
        strategy,
        workers=args.workers,
        model_bytes=args.model_bytes,
        passes=passes,
        schedule=schedule or None,
        seed=args.seed,
        rounds=rounds,
    )
    return (
        f"{strategy:<18}{passes or '':>6}  {schedule:<12}{bytes_text(predicted.sent_mean, 4):>12}"
        f"{bytes_text(predicted.sent_max, 4):>12}{predicted.sent_mean / args.model_bytes:>9.4f}"
    )


def _some_passes(workers: int, schedule: str) -> list[int]:
    """All of 1 to N-1 while they fit a screen; then the small ones, doublings, and everybody.

    Exponential makes pairs, so it has no row but the first.
    """
    every: Sequence[int] = range(1, workers)
    if schedule == "exponential":
        every = every[:1]
    if workers > 24:
        every = [p for p in every if p <= 8 or p == workers - 1 or p & (p - 1) == 0]
    return list(every)


if __name__ == "__main__":
    sys.exit(main())
