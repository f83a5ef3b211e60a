"""python3 -m analysis.predict: step time and bytes of any cluster, by a fitted cost model.

python3 -m analysis.predict --workers 1024 --link 10gbit --model-bytes 1.4G --strategy all
python3 -m analysis.predict --workers 64 --link 100mbit --model-bytes 87k --compute 20ms
python3 -m analysis.predict fit runs --output fitted.json       then --fit fitted.json
"""

import argparse
import functools
import sys
from collections.abc import Iterator, Sequence

from analysis.predict import unequal
from analysis.predict.cost_model import Cluster
from analysis.predict.crossovers import sweeps
from analysis.predict.fitted import SHIPPED, Fitted, error_text, load
from cluster.observe.units import bytes_text, seconds_text
from cluster.spec.command_line import Parser, argument, parse_path
from cluster.spec.errors import SpecError, between, one_of
from cluster.spec.links import Link, parse_link, parse_links
from cluster.spec.quantities import parse_size, parse_time
from cluster.spec.strategies import STRATEGIES

MOST_WORKERS = 65_536
MOST_SIMULATED = 1024
FASTEST_LINK = 10**13
"""Faster than this project can emulate."""


def _parser() -> Parser:
    parser = Parser(
        prog="python3 -m analysis.predict",
        description="Step time, bytes and the busiest node of any cluster, by a cost model fitted"
        " to\nmeasured runs (analysis/predict/cost_model.py)."
        " `python3 -m analysis.predict fit RUNS` fits\nanother.",
        epilog="examples: python3 -m analysis.predict --workers 1024 --link 10gbit"
        " --model-bytes 1.4G\n          python3 -m analysis.predict fit runs --output fitted.json",
    )
    add = parser.add_argument
    add("--workers", type=int, required=True, metavar="N", help=f"2 to {MOST_WORKERS}")
    link = "of every node, such as 10gbit or 1gbit/0.1ms"
    rate = argument(functools.partial(parse_link, highest=FASTEST_LINK))
    add("--link", type=rate, required=True, metavar="RATE[/DELAY]", help=link)
    slow = "nodes with a link of their own, such as 3:100mbit; then steps are simulated"
    parse = argument(parse_links)
    add("--bottleneck", type=parse, default={}, metavar="RANK:LINK[,...]", help=slow)
    size = "k, M, G are powers of 1000"
    add("--model-bytes", type=argument(parse_size), required=True, metavar="M", help=size)
    add("--strategy", default="all", metavar="NAME[,NAME]", help="or all (default: all)")
    add("--passes", type=int, default=1, metavar="P", help="where there are passes (default: 1)")
    local = "of strategies that train locally between exchanges (default: the strategy's own)"
    add("--local-steps", type=int, metavar="H", help=local)
    compute = "computing time of a step, such as 50ms (default: 0)"
    add("--compute", type=argument(parse_time), default=0.0, metavar="TIME", help=compute)
    fit = "a fitted model (default: the one that comes with gradwire)"
    add("--fit", type=argument(parse_path), default=SHIPPED, metavar="FILE", help=fit)
    return parser


def clusters(args: argparse.Namespace) -> list[Cluster]:
    """The cluster of the flags, once with each strategy."""
    known = [name for name, facts in STRATEGIES.items() if facts.exchanges]
    names = known if args.strategy == "all" else args.strategy.split(",")
    for name in names:
        one_of("strategy", name, ["all", *known])
    between("--workers", args.workers, 2, MOST_SIMULATED if args.bottleneck else MOST_WORKERS)
    for rank in args.bottleneck:
        between("--bottleneck: a rank", rank, 0, args.workers - 1)
    if args.link.loss:
        raise SpecError(
            f"--link {args.link} has loss, which is not modelled; leave it out, or measure it:"
            " ./measure.sh"
        )
    for flag, value in (("--passes", args.passes), ("--local-steps", args.local_steps)):
        if value is not None:
            between(flag, value, 1, 100_000)
    return [_cluster(args, name) for name in names]


def _cluster(args: argparse.Namespace, strategy: str) -> Cluster:
    facts = STRATEGIES[strategy]
    trains_locally = facts.local_steps > 1
    return Cluster(
        strategy=strategy,
        workers=args.workers,
        model_bytes=args.model_bytes,
        rate_mbit=args.link.rate_mbit,
        delay_s=args.link.delay_s,
        passes=args.passes if facts.has_passes else None,
        schedule="ring" if facts.has_passes else None,
        local_steps=(args.local_steps if trains_locally else None) or facts.local_steps,
        compute_s=args.compute,
    )


def table(model: Fitted, clusters: Sequence[Cluster]) -> Iterator[str]:
    rows = sorted(
        ((model.forecast(cluster), cluster) for cluster in clusters), key=lambda row: row[0].step_s
    )
    yield (
        f"{'strategy':<18}{'step':>10}{'exchange':>11}{'sent':>11}{'busiest':>11}"
        f"  {'limited by':<12}remark"
    )
    for found, cluster in rows:
        yield (
            f"{cluster.strategy:<18}{seconds_text(found.step_s):>10}"
            f"{seconds_text(found.exchange_s):>11}{bytes_text(found.sent_bytes):>11}"
            f"{bytes_text(found.busiest_bytes):>11}  {found.limit:<12}{model.outside(cluster)}"
        ).rstrip()
    yield ""
    yield "sent: payload per worker and exchange; busiest: sent or received by the busiest node"
    yield "limited by: where most of an exchange's time goes: links, work of the nodes, messages"
    yield error_text(model)
    if any("far" in model.outside(cluster) for cluster in clusters):
        low, high = model.ranges["workers"]
        slow, quick = model.ranges["rate_mbit"]
        small, large = model.ranges["model_bytes"]
        yield (
            f"far outside: fitted to {low:g} to {high:g} workers, links of {slow:g} to {quick:g}"
            f" Mbit/s and {bytes_text(small)} to {bytes_text(large)}; such a number is an order of"
            " magnitude"
        )


def sweep_lines(model: Fitted, clusters: Sequence[Cluster]) -> Iterator[str]:
    """The fastest strategy as N or the link changes, and where one overtakes another."""
    first = clusters[0]
    link = Link(round((first.rate_mbit or 0) * 1e6), first.delay_s)
    less = any(not STRATEGIES[c.strategy].averages_everything for c in clusters)
    of_which = ", of those that average everything at every step" if less else ""
    fixed = {
        "workers": f"on links of {link}, by workers",
        "mbit": f"with {first.workers} workers, by link in Mbit/s",
    }
    for sweep in sweeps(model, clusters):
        yield f"fastest {fixed[sweep.by]}{of_which}"
        for stretch in sweep.stretches:
            low, high = stretch.low, stretch.high
            ends = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            yield f"  {ends}: {', '.join(stretch.fastest)}"
        for crossing, outside in sweep.crossovers:
            remark = f" ({outside})" if outside else ""
            yield f"  from {crossing.at:g} on {crossing.faster} overtakes {crossing.slower}{remark}"


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["fit"]:
        from analysis.predict import fit_command

        return fit_command.main(given[1:])
    parser = _parser()
    args = parser.parse_args(given)
    try:
        model = load(args.fit)
        asked = clusters(args)
        found = [cluster for cluster in asked if model.knows(cluster.strategy)]
        if not found:
            raise SpecError(
                f"{args.fit} was not fitted to {args.strategy}; it knows:"
                f" {', '.join(model.strategies)}"
            )
    except OSError as error:
        parser.error(f"cannot read {args.fit}: {error.strerror}")
    except ValueError as error:
        parser.error(str(error))
    print(
        f"N = {args.workers} workers, links of {args.link}, M = {args.model_bytes:,} bytes,"
        f" computing {seconds_text(args.compute)}"
    )
    print()
    if args.bottleneck:
        print("\n".join(unequal.lines(asked, args.bottleneck)))
        return 0
    print("\n".join(table(model, found)))
    if without := [cluster.strategy for cluster in asked if cluster not in found]:
        print(f"no fit for: {', '.join(without)}")
    if len(found) > 1:
        print()
        print("\n".join(sweep_lines(model, found)))
    return 0
