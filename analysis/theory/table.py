"""The table of predicted bytes: python3 -m analysis.theory --workers 6 --model-bytes 87M"""

import argparse
from collections.abc import Iterator, Sequence

from analysis.theory.predicted_bytes import (
    Prediction,
    lower_bound_s,
    predict,
    predict_framing,
)
from cluster.observe.units import bytes_text, seconds_text
from cluster.spec.command_line import Parser, argument
from cluster.spec.exchange.codecs import HALVES
from cluster.spec.exchange.strategies import BUFFERS, STRATEGIES
from cluster.spec.links import parse_link, parse_links
from cluster.spec.quantities import parse_size
from cluster.spec.schedules.consensus import resolve
from cluster.spec.schedules.messages import Setting
from cluster.spec.schedules.pairwise import SCHEDULES, period

MOST_ROUNDS = 10_000


def _passes(text: str) -> list[int]:
    values = [int(part) if part.isdecimal() else 0 for part in text.split(",")]
    if min(values) < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, such as 1 or 1,2,4, not {text!r}")
    return values


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python3 -m analysis.theory",
        description="Predict the bytes each worker sends in a round, payload only, by strategy.",
        epilog="sent, received   by a worker in a round: mean over workers and rounds\n"
        "framing          what Gloo adds to that, sent by a worker: 144 bytes for every message\n"
        "busiest          what the busiest node sends or receives; a server is a node too\n"
        "x M              sent, in units of the model's bytes\n"
        "least mean       bound of the mean time of a round on such links: the busiest link's\n"
        "                 bytes, with headers; a round of pairwise may be shorter than the mean\n\n"
        "examples: python3 -m analysis.theory --workers 6 --model-bytes 87M\n"
        "          python3 -m analysis.theory --workers 6 --model-bytes 87M --link 1gbit"
        " --bottleneck 0:100mbit",
    )
    add = parser.add_argument
    add("--workers", type=int, required=True, metavar="N", help="1 to 1024")
    size, powers = argument(parse_size), "k, M, G are powers of 1000"
    add("--model-bytes", type=size, required=True, metavar="M", help=powers)
    add("--passes", type=_passes, metavar="P[,P]", help="for pairwise (default: 1 to N-1)")
    add("--schedule", default="ring", help="for pairwise (default: ring)")
    add("--seed", type=int, default=0, help="of the random schedule (default: 0)")
    add("--rounds", type=int, help="to average over (default: until the groups repeat, or 1000)")
    add("--compress", choices=("none", *HALVES), default="none", help="halves what is sent")
    add("--buffer-bytes", type=size, default=0, metavar="B", help="of batch-norm statistics")
    add("--buffers", choices=BUFFERS, help="what happens to them (default: the strategy's own)")
    add("--link", type=argument(parse_link), help="of every node, such as 100mbit")
    slow = argument(parse_links)
    add("--bottleneck", type=slow, default={}, metavar="RANK:LINK[,...]", help="of some nodes")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    if not 1 <= args.workers <= 1024:
        parser.error(f"--workers must be 1 to 1024, not {args.workers}")
    if args.rounds is not None and not 1 <= args.rounds <= MOST_ROUNDS:
        parser.error(f"--rounds must be 1 to {MOST_ROUNDS}, not {args.rounds}")
    if args.compress != "none" and args.model_bytes < 2:
        parser.error("--model-bytes must be 2 or more to be compressed")
    beyond = [rank for rank in args.bottleneck if rank > args.workers]
    if beyond:
        parser.error(f"--bottleneck: there is no node {beyond[0]} among {args.workers} workers")
    try:
        print("\n".join(_table(args)))
    except ValueError as refused:
        parser.error(str(refused))
    return 0


def _table(args: argparse.Namespace) -> Iterator[str]:
    small = args.model_bytes // (1 if args.compress == "none" else 2)
    workers = "worker" if args.workers == 1 else "workers"
    yield f"N = {args.workers} {workers}, M = {small:,} bytes"
    yield ""
    yield (
        f"{'strategy':<18}{'passes':>6}  {'schedule':<12}{'sent':>11}{'framing':>11}"
        f"{'received':>11}{'busiest':>11}{'x M':>11}"
        + (f"{'least mean':>11}" if args.link or args.bottleneck else "")
    )
    for strategy, facts in STRATEGIES.items():
        if facts.needs_sites:
            continue
        if not facts.has_passes:
            yield _line(args, strategy, None)
        else:
            for passes in args.passes or _some_passes(args.workers, args.schedule):
                yield _line(args, strategy, passes)


def _line(args: argparse.Namespace, strategy: str, passes: int | None) -> str:
    schedule, rounds = "", args.rounds or 1
    if passes is not None:
        schedule = resolve(args.workers, passes, args.schedule, args.seed)
        rounds = args.rounds or period(args.workers, passes, schedule) or 1000
    size = args.model_bytes // (1 if args.compress == "none" else 2)
    setting = Setting(
        workers=args.workers,
        model_bytes=size,
        passes=passes,
        schedule=schedule or None,
        seed=args.seed,
        buffers=args.buffers or STRATEGIES[strategy].buffers,
        buffer_bytes=args.buffer_bytes,
    )
    predicted = predict(strategy, setting, rounds)
    busiest = max(predicted.sent_max, predicted.received_max)
    framing = predict_framing(strategy, setting, rounds)
    columns = (predicted.sent_mean, framing.sent_mean, predicted.received_mean, busiest)
    return (
        f"{strategy:<18}{passes or '':>6}  {schedule:<12}"
        + "".join(f"{bytes_text(value, 4):>11}" for value in columns)
        + f"{predicted.sent_mean / size:>11.4f}"
        + (f"{_least(args, predicted):>11}" if args.link or args.bottleneck else "")
    )


def _least(args: argparse.Namespace, predicted: Prediction) -> str:
    nodes = len(predicted.sent_by_rank)
    links = {**(dict.fromkeys(range(nodes), args.link) if args.link else {}), **args.bottleneck}
    seconds = lower_bound_s(predicted, [links.get(rank) for rank in range(nodes)])
    return seconds_text(seconds) if seconds else "-"


def _some_passes(workers: int, schedule: str) -> list[int]:
    """All of 1 to N-1 while they fit a screen; then the small ones, doublings, and everybody.

    A schedule that makes pairs has no row but the first.
    """
    every: Sequence[int] = range(1, workers)
    if schedule in SCHEDULES and SCHEDULES[schedule].pairs_only:
        every = every[:1]
    if workers > 24:
        every = [p for p in every if p <= 8 or p == workers - 1 or p & (p - 1) == 0]
    return list(every)
