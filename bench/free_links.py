"""Step time of allreduce on links that are not shaped, over that of ddp, by model size.

Synthetic models without computing: a step is an exchange. The two strategies take turns; medians of
each one's step times are compared.
"""

from __future__ import annotations

import argparse
from statistics import median

from bench.tools.session import add_engine, count, known, measure, sizes
from bench.tools.table import Table

STEPS = 12


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--workers", type=count, default=2, help="(default: %(default)s)")
    parser.add_argument("--sizes", default="1M,25M,100M", help="a list (default: %(default)s)")
    parser.add_argument("--turns", type=count, default=3, help="(default: %(default)s)")


def run(args: argparse.Namespace) -> Table:
    rows = []
    for size in args.sizes.split(","):
        times_s: dict[str, list[float]] = {"allreduce": [], "ddp": []}
        common = ("--engine", args.engine, "--workers", str(args.workers))
        model = ("--model", f"synthetic:{size}", *sizes(args.workers, STEPS))
        for _ in range(args.turns):
            for summary in measure(*common, *model, "--strategy", "allreduce,ddp"):
                step_s = known(known(summary.seconds).step_median_s)
                times_s[str(summary.spec["strategy"])].append(step_s)
        ours, ddp = (median(times_s[name]) for name in ("allreduce", "ddp"))
        rows.append((size, f"{1000 * ours:.2f} ms", f"{1000 * ddp:.2f} ms", f"{ours / ddp:.3f}"))
    return Table(
        f"{args.workers} workers, {args.engine}; medians of {args.turns} runs of {STEPS} steps",
        ("model", "allreduce", "ddp", "allreduce over ddp"),
        rows,
    )
