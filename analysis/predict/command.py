"""What would happen on a larger cluster: step time, bytes and the busiest node, by a model fitted to measured runs.

python -m analysis.predict --workers 1024 --link 10gbit --model-bytes 1.4G --strategy all
python -m analysis.predict --workers 64 --link 100mbit --model-bytes 87k --compute 20ms
python -m analysis.predict fit runs --output fitted.json       fit to your own runs, then --fit fitted.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from analysis.predict.advice import AVERAGE_LESS, sweeps
from analysis.predict.cost_model import TIME_TERMS, Cluster
from analysis.predict.fitted import SHIPPED, Fitted, fit_to, load, observe_all, save
from cluster.observe.units import bytes_text, seconds_text
from cluster.spec.command_line import Parser, argument
from cluster.spec.errors import SpecError, one_of
from cluster.spec.links import Link, parse_link
from cluster.spec.quantities import parse_size, parse_time
from cluster.spec.run_folder import find_runs
from cluster.spec.strategies import STRATEGIES

MOST_WORKERS = 65_536
FASTEST_LINK = 10**13


def _any_link(text: str) -> Link:
    """Also one that is faster than this project can emulate."""
    return parse_link(text, highest=FASTEST_LINK)


def _parser() -> Parser:
    parser = Parser(
        prog="python -m analysis.predict",
        description="Step time, bytes and the busiest node of any cluster, by a cost model fitted to\n"
        "measured runs (analysis/predict/cost_model.py). `python -m analysis.predict fit RUNS` fits another.",
        epilog="examples: python -m analysis.predict --workers 1024 --link 10gbit --model-bytes 1.4G\n"
        "          python -m analysis.predict fit runs --output fitted.json",
    )
    parser.add_argument(
        "--workers", type=int, required=True, metavar="N", help=f"2 to {MOST_WORKERS}"
    )
    parser.add_argument(
        "--link",
        type=argument(_any_link),
        required=True,
        metavar="RATE[/DELAY]",
        help="of every node, such as 10gbit or 1gbit/0.1ms",
    )
    parser.add_argument(
        "--model-bytes",
        type=argument(parse_size),
        required=True,
        metavar="M",
        help="k, M, G are powers of 1000",
    )
    parser.add_argument(
        "--strategy", default="all", metavar="NAME[,NAME]", help="or all (default: all)"
    )
    parser.add_argument(
        "--passes", type=int, default=1, metavar="P", help="of pairwise (default: 1)"
    )
    parser.add_argument(
        "--local-steps", type=int, default=8, metavar="H", help="of local-sgd (default: 8)"
    )
    parser.add_argument(
        "--compute",
        type=argument(parse_time),
        default=0.0,
        metavar="TIME",
        help="that a step computes, such as 50ms (default: 0)",
    )
    parser.add_argument(
        "--fit",
        type=Path,
        default=SHIPPED,
        metavar="FILE",
        help="a fitted model (default: the one that came with gradwire)",
    )
    return parser


def clusters(args: argparse.Namespace) -> list[Cluster]:
    known = [name for name in STRATEGIES if name != "single"]
    names = known if args.strategy == "all" else args.strategy.split(",")
    for name in names:
        one_of("strategy", name, ["all", *known])
    if not 2 <= args.workers <= MOST_WORKERS:
        raise SpecError(f"--workers must be 2 to {MOST_WORKERS}, not {args.workers}")
    if args.link.loss:
        raise SpecError(
            f"--link {args.link} has loss, which is not modelled; leave it out, or measure it: ./measure.sh"
        )
    for flag, value in (("--passes", args.passes), ("--local-steps", args.local_steps)):
        if value < 1:
            raise SpecError(f"{flag} must be 1 or more, not {value}")
    return [
        Cluster(
            strategy=name,
            workers=args.workers,
            model_bytes=args.model_bytes,
            rate_mbit=args.link.rate_mbit,
            delay_s=args.link.delay_s,
            passes=args.passes if name == "pairwise" else None,
            schedule="ring" if name == "pairwise" else None,
            local_steps=args.local_steps if name == "local-sgd" else 1,
            compute_s=args.compute,
        )
        for name in names
    ]


def table(model: Fitted, asked: Sequence[Cluster]) -> Iterator[str]:
    rows = sorted(((model.forecast(one), one) for one in asked), key=lambda row: row[0].step_s)
    yield f"{'strategy':<18}{'step':>10}{'exchange':>11}{'sent':>11}{'busiest':>11}  {'limited by':<12}remark"
    for found, one in rows:
        yield (
            f"{one.strategy:<18}{seconds_text(found.step_s):>10}{seconds_text(found.exchange_s):>11}"
            f"{bytes_text(found.sent_bytes):>11}{bytes_text(found.busiest_bytes):>11}  "
            f"{found.limit:<12}{model.outside(one)}"
        ).rstrip()
    yield ""
    yield "sent: payload per worker and exchange; busiest: what the busiest node sends or receives in it"
    yield "limited by: what most of an exchange waits for, the links' rate, the nodes' own work or single messages"
    yield own_error(model)
    if any("far" in model.outside(one) for one in asked):
        low, high = model.ranges["workers"]
        slow, quick = model.ranges["rate_mbit"]
        small, large = model.ranges["model_bytes"]
        yield (
            f"far outside: fitted to {low:g} to {high:g} workers, links of {slow:g} to {quick:g} mbit and"
            f" {bytes_text(small)} to {bytes_text(large)}; take such a number for an order of magnitude"
        )


def own_error(model: Fitted) -> str:
    if model.errors is None:
        return "error on runs it was not fitted to: not known"
    found = model.errors
    return (
        f"error on {found.runs} runs it was not fitted to: step {found.step_median:.1%} in the middle,"
        f" {found.step_worst:.0%} at worst; bytes {found.bytes_median:.3%}"
    )


def overtaking(model: Fitted, asked: Sequence[Cluster]) -> Iterator[str]:
    """Which is quickest as N or the link changes, of those that do the same work, and who overtakes whom."""
    first = asked[0]
    link = Link(round((first.rate_mbit or 0) * 1e6), first.delay_s)
    less = any(one.strategy in AVERAGE_LESS for one in asked)
    of_which = ", of those that average everything at every step" if less else ""
    fixed = {
        "workers": f"on links of {link}, by workers",
        "mbit": f"with {first.workers} workers, by link in mbit",
    }
    for sweep in sweeps(model, asked):
        yield f"quickest {fixed[sweep.by]}{of_which}"
        for one in sweep.stretches:
            ends = f"{one.low:g}" if one.low == one.high else f"{one.low:g} to {one.high:g}"
            yield f"  {ends}: {', '.join(one.fastest)}"
        for crossing, outside in sweep.overtakings:
            remark = f" ({outside})" if outside else ""
            yield f"  from {crossing.at:g} on {crossing.faster} overtakes {crossing.slower}{remark}"


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["fit"]:
        return fit_main(given[1:])
    parser = _parser()
    args = parser.parse_args(given)
    try:
        model = load(args.fit)
        asked = [one for one in clusters(args) if model.knows(one.strategy)]
        if not asked:
            raise SpecError(
                f"{args.fit} was not fitted to {args.strategy}; it knows: {', '.join(model.constants)}"
            )
    except OSError as error:
        parser.error(f"cannot read {args.fit}: {error.strerror}")
    except ValueError as error:
        parser.error(str(error))
    print(
        f"N = {args.workers} workers, links of {args.link}, M = {args.model_bytes:,} bytes, computing {seconds_text(args.compute)}"
    )
    print()
    print("\n".join(table(model, asked)))
    if len(asked) > 1:
        print()
        print("\n".join(overtaking(model, asked)))
    return 0


def fit_main(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="python -m analysis.predict fit",
        description="Fit the cost model to measured runs, best with --model synthetic:... on links of several rates.",
    )
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUNS", help="run folders (default: runs)"
    )
    parser.add_argument(
        "--held-out",
        nargs="+",
        type=Path,
        default=[],
        metavar="RUNS",
        help="to test it on (default: each number of workers in turn)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("fitted.json"),
        metavar="FILE",
        help="(default: fitted.json)",
    )
    args = parser.parse_args(arguments)
    paths = args.runs or [Path("runs")]
    seen, unseen = (
        observe_all(f for path in some for f in find_runs(path)) for some in (paths, args.held_out)
    )
    model = fit_to(seen, unseen)
    if not model.constants:
        parser.error(
            f"not enough in {', '.join(map(str, paths))}: a strategy needs 4 completed runs with no slow nodes;"
            " to make them: ./measure.sh --workers 2,4,6 --link 50mbit,200mbit --model synthetic:600k,synthetic:2.4M"
            " --epochs 1 --batch-size 1 --train-size 60"
        )
    print(f"{'strategy':<18}{'runs':>6}" + "".join(f"{name:>14}" for name in TIME_TERMS))
    for name, one in model.constants.items():
        print(f"{name:<18}{one.runs:>6}" + "".join(f"{value:>14.4g}" for value in one.time))
    print(own_error(model))
    try:
        save(model, args.output)
    except OSError as error:
        parser.error(f"cannot write {args.output}: {error.strerror}")
    print(args.output)
    return 0
