"""Step time of the MNIST network on links that are not shaped, over that of ddp.

Computing and the cost of many small messages decide here, not bytes. Every strategy runs
several times in turn; the median of its step times is divided by that of `ddp`.
"""

from __future__ import annotations

import argparse
from statistics import median

from bench.exchange import EVERY_STEP
from bench.tools.session import add_engine, count, known, measure
from bench.tools.table import Table


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--workers", type=count, default=4, help="(default: %(default)s)")
    parser.add_argument("--turns", type=count, default=3, help="(default: %(default)s)")


def run(args: argparse.Namespace) -> Table:
    times_s: dict[str, list[float]] = {}
    sent_bytes: dict[str, float] = {}
    for _ in range(args.turns):
        common = ("--engine", args.engine, "--workers", str(args.workers), "--epochs", "2")
        for summary in measure(*common, "--strategy", EVERY_STEP):
            strategy = str(summary.spec["strategy"])
            step_s = known(known(summary.seconds).step_median_s)
            times_s.setdefault(strategy, []).append(step_s)
            sent_bytes[strategy] = known(known(summary.per_step).sent_max_bytes)
    reference_s = median(times_s["ddp"])
    return Table(
        f"{args.workers} workers, mnist-cnn, {args.engine}; medians of {args.turns} runs",
        ("strategy", "step", "over ddp", "sent by the busiest node"),
        [
            (
                strategy,
                f"{1000 * median(values):.1f} ms",
                f"{median(values) / reference_s:.2f}",
                f"{sent_bytes[strategy] / 1000:.0f} kB",
            )
            for strategy, values in times_s.items()
        ],
    )
