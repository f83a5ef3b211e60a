"""Duration of an exchange over its lower bound, for every strategy.

The lower bound is the bytes of the busiest link, headers included, less its burst, over its rate.
Acknowledgements are not in it: they take 1 % of a link that is full in both directions.
"""

from __future__ import annotations

import argparse

from bench.tools.session import add_engine, count, known, measure, sizes
from bench.tools.table import Table
from cluster.spec.documents.summary import Summary
from cluster.spec.errors import one_of
from cluster.spec.exchange.strategies import IN_STEP

ROUNDS = 12
EVERY_STEP = ",".join(name for name in IN_STEP if name != "local-sgd")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--link", default="100mbit", help="or none (default: %(default)s)")
    parser.add_argument("--bottleneck", help="such as 2:20mbit (default: none)")
    parser.add_argument("--workers", type=count, default=4, help="(default: %(default)s)")
    parser.add_argument("--model", default="synthetic:4M", help="(default: %(default)s)")
    parser.add_argument("--strategies", default=EVERY_STEP, help="a list (default: all)")


def exchange_s(summary: Summary) -> float:
    """Median of an exchange; for ddp, which exchanges during backward, of a step (no compute)."""
    seconds = known(summary.seconds)
    return seconds.exposed_communication_median_s or known(seconds.step_median_s)


def run(args: argparse.Namespace) -> Table:
    for name in args.strategies.split(","):
        one_of("strategy", name, EVERY_STEP.split(","))
    link = [] if args.link == "none" else ["--link", args.link]
    link += ["--bottleneck", args.bottleneck] if args.bottleneck else []
    summaries = measure(
        *("--engine", args.engine, "--workers", str(args.workers), "--model", args.model),
        *("--strategy", args.strategies, *link, *sizes(args.workers, ROUNDS)),
    )
    rows = []
    for summary in summaries:
        time_s, bound_s = exchange_s(summary), known(summary.seconds).communication_bound_s
        rows.append(
            (
                str(summary.spec["strategy"]),
                f"{1000 * time_s:.1f} ms",
                f"{1000 * bound_s:.1f} ms" if bound_s else "-",
                f"{time_s / bound_s:.3f}" if bound_s else "-",
                f"{known(summary.per_step).ratio:.3f}",
            )
        )
    bottleneck = f", bottleneck {args.bottleneck}" if args.bottleneck else ""
    return Table(
        f"{args.workers} workers, {args.model}, links {args.link}{bottleneck}, {args.engine};"
        f" medians of {ROUNDS} rounds",
        ("strategy", "exchange", "bound", "time/bound", "measured/predicted bytes"),
        rows,
    )
