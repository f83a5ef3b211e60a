"""python3 -m analysis.predict: step time and bytes of any cluster, simulated.

python3 -m analysis.predict --workers 64 --link 1gbit --bottleneck 3:100mbit --model-bytes 100M
python3 -m analysis.predict need --workers 16 --model-bytes 440M --compute 300ms
python3 -m analysis.predict fit runs --output fitted.json       then --fit fitted.json
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from analysis.predict.asking import (
    MOST_OF_TREE,
    add_cluster,
    add_fit,
    check,
    named,
    read_fit,
    refuse_codec,
)
from analysis.predict.crossovers import sweeps
from analysis.predict.fitted import Fitted, error_text, far_text
from analysis.predict.forecast import MOST_ROUNDS, TREE, Cluster, Forecast, bound_s, is_cut_short
from cluster.observe.units import bytes_text, percent_text, seconds_text
from cluster.spec.command_line import Parser, argument
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.links import parse_cores, parse_links


def _parser() -> Parser:
    parser = Parser(
        prog="python3 -m analysis.predict",
        description="Step time, bytes and the busiest node of any cluster: the messages of each"
        " strategy, simulated\non links of these rates (docs/prediction.md)."
        " `need` turns the question round: which link is enough.\n`fit RUNS` fits what a message"
        " and a byte cost on a host to measured runs.",
        epilog="examples: python3 -m analysis.predict --workers 1024 --link 10gbit"
        " --model-bytes 1.4G\n          python3 -m analysis.predict --workers 64 --link 1gbit"
        " --bottleneck 3:100mbit\n              --strategy allreduce,pairwise --model-bytes 100M"
        " --compute 200ms\n          python3 -m analysis.predict need --workers 16"
        " --model-bytes 440M --compute 300ms\n"
        "          python3 -m analysis.predict fit runs --output fitted.json",
    )
    add = parser.add_argument
    add_cluster(parser, needs_link=True)
    slow = "nodes with a link of their own, such as 3:100mbit"
    parse = argument(parse_links)
    add("--bottleneck", type=parse, default={}, metavar="RANK:LINK[,...]", help=slow)
    less = "nodes with a share of a core, such as 2:0.5: they compute longer"
    cores = argument(parse_cores)
    add("--straggler", type=cores, default={}, metavar="RANK:CORES[,...]", help=less)
    add("--strategy", default="all", metavar="NAME[,NAME]", help="or all (default: all)")
    add("--passes", type=int, default=1, metavar="P", help="where there are passes (default: 1)")
    local = "steps from exchange to exchange (default: the strategy's own)"
    add("--local-steps", type=int, metavar="H", help=local)
    codec = "how numbers are encoded, where the strategy takes it (default: none)"
    add("--compress", default="none", metavar="CODEC", help=codec)
    add_fit(parser)
    return parser


def clusters(args: argparse.Namespace) -> list[Cluster]:
    """The cluster of the flags, once with each strategy; SpecError for what cannot be."""
    check(args)
    if args.strategy != "all":
        refuse_codec(args.strategies, args.compress)
    return [
        named(
            args,
            name,
            compress=args.compress,
            local_steps=args.local_steps,
            slow=tuple(args.bottleneck.items()),
            stragglers=tuple(args.straggler.items()),
        )
        for name in args.strategies
    ]


def table(model: Fitted, clusters: Sequence[Cluster], compress: str = "none") -> Iterator[str]:
    """`compress` is what was asked for: not every strategy takes it."""
    rows = [(model.forecast(cluster), cluster) for cluster in clusters]
    rows.sort(key=lambda row: row[0].step_s)
    unequal = bool(clusters[0].slow or clusters[0].stragglers)
    equal = f"{'all equal':>11}{'slower':>9}" if unequal else ""
    yield (
        f"{'strategy':<18}{'step':>10}{'exchange':>11}{'computing':>11}{'x best':>8}"
        f"{'sent':>11}{'busiest':>11}{equal}"
    )
    for found, cluster in rows:
        yield _line(model, found, cluster) + (_compared(model, found, cluster) if unequal else "")
    yield ""
    yield "step: median over workers; exchange: what a round adds to computing"
    yield "computing: share of a step in which a worker computes"
    yield "x best: exchange, over the shortest that any schedule could have on these links"
    yield "sent: payload and framing, per worker and exchange; busiest: payload that the busiest"
    yield "      node sends or receives in an exchange"
    if unequal:
        yield "all equal: the step without --bottleneck and --straggler"
    without = [each.strategy for each in clusters if each.compress != compress]
    if without:
        yield f"without {compress}, which they do not take: {', '.join(without)}"
    cut = [each.strategy for each in clusters if is_cut_short(each)]
    if cut:
        yield f"{', '.join(cut)}: of {MOST_ROUNDS} exchanges, after which lateness has not"
        yield "      reached everyone: later steps are longer"
    yield error_text(model)
    if any("far" in model.outside(cluster) for cluster in clusters):
        yield far_text(model)


def _line(model: Fitted, found: Forecast, cluster: Cluster) -> str:
    bound = bound_s(cluster)
    best = f"{found.exchange_s / bound:.2f}" if bound else "-"
    return (
        f"{cluster.strategy:<18}{seconds_text(found.step_s):>10}"
        f"{seconds_text(found.exchange_s):>11}"
        f"{percent_text(min(1.0, cluster.compute_s / found.step_s), 0):>11}{best:>8}"
        f"{bytes_text(found.sent_bytes):>11}{bytes_text(found.busiest_bytes):>11}"
    )


def _compared(model: Fitted, found: Forecast, cluster: Cluster) -> str:
    equal_s = model.forecast(cluster.with_equal_nodes).step_s
    return f"{seconds_text(equal_s):>11}{found.step_s / equal_s:>7.1f} x"


def sweep_lines(model: Fitted, clusters: Sequence[Cluster]) -> Iterator[str]:
    """The fastest strategy as N or the link changes, and where one overtakes another."""
    first = clusters[0]
    less = any(not STRATEGIES[c.strategy].averages_everything for c in clusters)
    of_which = ", of those that average everything at every step" if less else ""
    fixed = {
        "workers": f"on links of {first.link}, by workers",
        "mbit": f"with {first.workers} workers, by link in Mbit/s",
    }
    yield f"differences below {percent_text(model.tie, 0)}, twice the median error, are ties"
    for sweep in sweeps(model, clusters):
        yield f"fastest {fixed[sweep.by]}{of_which}"
        for stretch in sweep.stretches:
            low, high = stretch.low, stretch.high
            ends = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            yield f"  {ends}: {', '.join(stretch.fastest)}"
        for crossing in sweep.crossovers:
            yield (
                f"  between {crossing.after:g} and {crossing.at:g} {crossing.faster} overtakes"
                f" {crossing.slower}"
            )


def heading(args: argparse.Namespace) -> str:
    """What was asked for, in one line."""
    slow = [f"node {rank} {link}" for rank, link in args.bottleneck.items()]
    slow += [f"node {rank} {cores:g} of a core" for rank, cores in args.straggler.items()]
    codec = "" if args.compress == "none" else f", codec {args.compress}"
    return (
        f"N = {args.workers} workers, links of {', '.join([str(args.link), *slow])},"
        f" M = {args.model_bytes:,} bytes{codec}, computing {seconds_text(args.compute)}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["fit"]:
        from analysis.predict import fit_command

        return fit_command.main(given[1:])
    if given[:1] == ["need"]:
        from analysis.predict import need_command

        return need_command.main(given[1:])
    parser = _parser()
    args = parser.parse_args(given)
    model = read_fit(parser, args)
    try:
        asked = clusters(args)
    except ValueError as error:
        parser.error(str(error))
    print(f"{heading(args)}\n")
    print("\n".join(table(model, asked, args.compress)), flush=True)
    if args.strategy == "all" and TREE not in args.strategies:
        print(f"{TREE} is left out: different nodes of a tree are simulated up to {MOST_OF_TREE}")
    if len(asked) > 1 and not (args.bottleneck or args.straggler):
        print()
        print("\n".join(sweep_lines(model, asked)))
    return 0
