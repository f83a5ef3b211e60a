"""Measured over predicted bytes for every strategy, by number of workers and model size.

Links are not shaped. For each setting the table names the strategy whose ratio is furthest from
1, by the mean over workers and by the busiest node. The tests measure some of these settings in
every run.
"""

from __future__ import annotations

import argparse

from bench.tools.session import add_engine, counts, measure, sizes
from bench.tools.table import Table
from cluster.spec.exchange.strategies import IN_STEP

STEPS = 4


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument(
        "--workers", type=counts, default="2,3,4,6", help="a list (default: %(default)s)"
    )
    parser.add_argument("--sizes", default="1M,4M,25M", help="a list (default: %(default)s)")
    parser.add_argument("--compress", default="none", help="(default: %(default)s)")


def run(args: argparse.Namespace) -> Table:
    strategies = ",".join(IN_STEP)
    rows = []
    for workers in args.workers:
        for size in args.sizes.split(","):
            summaries = measure(
                *("--engine", args.engine, "--workers", str(workers), "--strategy", strategies),
                *("--model", f"synthetic:{size}:8", "--local-steps", "1"),
                *("--compress", args.compress, *sizes(workers, STEPS)),
            )
            row = [str(workers), f"{size[:-1]} {size[-1]}B"]
            for kind in ("mean", "max"):
                ratios = {
                    str(summary.spec["strategy"]): getattr(summary.per_step, f"sent_{kind}_bytes")
                    / getattr(summary.per_step, f"predicted_{kind}_bytes")
                    for summary in summaries
                }
                furthest = max(ratios, key=lambda name: abs(ratios[name] - 1))
                row.append(f"{ratios[furthest]:.4f} ({furthest})")
            rows.append(row)
    return Table(
        f"{len(strategies.split(','))} strategies, {args.engine}, compression {args.compress}",
        ("workers", "model", "furthest from 1, mean", "furthest from 1, busiest node"),
        rows,
    )
