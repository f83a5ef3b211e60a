"""Measured rate of shaped links against the target rate.

Each rate is the link of another node of one cluster, as with `--bottleneck`. The figures are
those of the verification that every run makes before it trains; of several runs, the one with
the largest error.
"""

from __future__ import annotations

import argparse

from bench.tools.session import count, measure
from bench.tools.table import Table

RATES = "1mbit,2mbit,5mbit,10mbit,20mbit,50mbit,100mbit,200mbit,500mbit,1gbit"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", default="netns", help="a list (default: %(default)s)")
    parser.add_argument("--rates", default=RATES, help="a list (default: %(default)s)")
    parser.add_argument("--repeat", default=1, type=count, help="runs (default: %(default)s)")


def run(args: argparse.Namespace) -> Table:
    rates = args.rates.split(",")
    nodes = str(len(rates))
    links = ",".join(f"{rank}:{rate}" for rank, rate in enumerate(rates))
    rows = []
    for engine in args.engine.split(","):
        sessions = [
            measure(
                *("--engine", engine, "--workers", nodes, "--passes", "1", "--epochs", "1"),
                *("--train-size", nodes, "--batch-size", "1", "--bottleneck", links),
            )
            for _ in range(args.repeat)
        ]
        for readings in zip(*(summary.links for (summary,) in sessions), strict=True):
            worst = max(readings, key=lambda link: abs(link.error))
            rows.append(
                (
                    worst.target,
                    engine,
                    f"{worst.sent_mbit:.4g}",
                    f"{worst.received_mbit:.4g}",
                    f"{100 * worst.error:+.2f} %",
                    str(max(link.attempts for link in readings)),
                )
            )
    return Table(
        f"{len(rates)} nodes, {args.repeat} runs of each engine",
        ("target", "engine", "sent Mbit/s", "received Mbit/s", "largest error", "attempts"),
        rows,
    )
