"""The flags by which a cluster is asked for, and what they make."""

import argparse
import functools
from collections.abc import Sequence

from analysis.predict.fitted import SHIPPED, Fitted, load
from analysis.predict.forecast import TREE, Cluster
from cluster.spec.command_line import Parser, argument, parse_path
from cluster.spec.errors import SpecError, between, one_of
from cluster.spec.exchange.codecs import parse_codec
from cluster.spec.exchange.strategies import IN_STEP, STRATEGIES
from cluster.spec.links import parse_link
from cluster.spec.quantities import parse_size, parse_time

MOST_WORKERS = 1024
MOST_OF_TREE = 64
"""Where its nodes differ, each of them is simulated."""
FASTEST_LINK = 10**13
"""Faster than this project can emulate."""


def carries(strategy: str, compress: str) -> bool:
    """Whether the exchange of this strategy can take this codec."""
    codec = parse_codec(compress)
    return not codec.lossy or strategy in codec.carriers


def refuse_codec(strategies: Sequence[str], compress: str) -> None:
    """SpecError for the first strategy whose exchange cannot take it."""
    for name in strategies:
        if not carries(name, compress):
            why = parse_codec(compress).why_not(name)
            raise SpecError(f"--compress {compress} is not for {name}, {why}")


def add_cluster(parser: Parser, needs_link: bool, most: int = MOST_WORKERS) -> None:
    add = parser.add_argument
    add("--workers", type=int, required=True, metavar="N", help=f"2 to {most}")
    link = "of every node, such as 10gbit or 1gbit/0.1ms"
    rate = argument(functools.partial(parse_link, highest=FASTEST_LINK))
    add("--link", type=rate, required=needs_link, metavar="RATE[/DELAY]", help=link)
    size = "k, M, G are powers of 1000"
    add("--model-bytes", type=argument(parse_size), required=True, metavar="M", help=size)
    compute = "computing time of a step, such as 50ms" + (" (default: 0)" if needs_link else "")
    time = argument(parse_time)
    add("--compute", type=time, default=0.0, required=not needs_link, metavar="TIME", help=compute)


def add_fit(parser: Parser) -> None:
    fit = "fitted costs (default: those that come with gradwire)"
    parser.add_argument(
        "--fit", type=argument(parse_path), default=SHIPPED, metavar="FILE", help=fit
    )


def read_fit(parser: Parser, args: argparse.Namespace) -> Fitted:
    try:
        return load(args.fit)
    except OSError as error:
        parser.error(f"cannot read {args.fit}: {error.strerror}")
    except ValueError as error:
        parser.error(str(error))


def check(args: argparse.Namespace) -> None:
    """SpecError for what cannot be; args.strategies become the names asked for."""
    unpaced = [name for name, facts in STRATEGIES.items() if facts.unpaced]
    known = list(IN_STEP)
    args.strategies = known if args.strategy == "all" else args.strategy.split(",")
    slow, stragglers = getattr(args, "bottleneck", {}), getattr(args, "straggler", {})
    if TREE in args.strategies and (slow or stragglers) and args.workers > MOST_OF_TREE:
        if args.strategy != "all":
            raise SpecError(f"{TREE} with different nodes: at most {MOST_OF_TREE} workers")
        args.strategies = [name for name in known if name != TREE]
    for name in args.strategies:
        if name in unpaced:
            raise SpecError(
                f"strategy {name} has no barrier: who exchanges when depends on timing, which is"
                f" not simulated; measure it: ./measure.sh --strategy {name}"
            )
        one_of("strategy", name, ["all", *known])
    between("--workers", args.workers, 2, MOST_WORKERS)
    for flag, ranks in (("--bottleneck", slow), ("--straggler", stragglers)):
        for rank in ranks:
            between(f"{flag}: a rank", rank, 0, args.workers - 1)
    for link in (args.link, *slow.values()):
        if link is not None and link.loss:
            raise SpecError(
                f"{link} has loss, which is not modelled; leave it out, or measure it: ./measure.sh"
            )
    if stragglers and not args.compute:
        raise SpecError("--straggler changes computing: add --compute, such as --compute 50ms")
    between("--passes", args.passes, 1, 100_000)


def named(
    args: argparse.Namespace,
    strategy: str,
    compress: str = "none",
    local_steps: int | None = None,
    **more: object,
) -> Cluster:
    """The cluster of the flags with this strategy."""
    facts = STRATEGIES[strategy]
    if local_steps is not None:
        between("--local-steps", local_steps, 1, 100_000)
    if parse_codec(compress).rank:
        raise ValueError(
            f"--compress {compress}: its bytes depend on the shapes of a model's layers; measure a"
            " run instead"
        )
    if not carries(strategy, compress):
        compress = "none"
    return Cluster(
        strategy=strategy,
        workers=args.workers,
        model_bytes=args.model_bytes,
        link=args.link,
        compute_s=args.compute,
        compress=compress,
        passes=min(args.passes, args.workers - 1) if facts.has_passes else None,
        schedule="ring" if facts.has_passes else None,
        local_steps=local_steps or facts.local_steps,
        **more,  # type: ignore[arg-type]
    )
