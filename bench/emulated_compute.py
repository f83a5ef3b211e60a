"""Compute time of a synthetic model over its target time, with more workers than cores.

A synthetic model sleeps instead of computing, so that many nodes fit on few cores. The aim is 3 %.
"""

from __future__ import annotations

import argparse

from bench.tools.session import add_engine, count, known, measure, sizes
from bench.tools.table import Table

COMPUTE_S = (0.05, 0.2, 1.0)
STEPS = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--workers", type=count, default=16, help="(default: %(default)s)")


def run(args: argparse.Namespace) -> Table:
    rows = []
    for target_s in COMPUTE_S:
        (summary,) = measure(
            *("--engine", args.engine, "--workers", str(args.workers)),
            *("--model", f"synthetic:40k:10:{target_s}s", "--strategy", "allreduce"),
            *sizes(args.workers, STEPS),
        )
        measured_s = known(known(summary.seconds).compute_median_s)
        rows.append((f"{target_s:g} s", f"{measured_s:.4f} s", f"{measured_s / target_s:.4f}"))
    return Table(f"{args.workers} workers, {args.engine}", ("target", "measured", "ratio"), rows)
