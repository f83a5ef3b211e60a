"""Step times between two sites, beside what the simulator says of the same links.

A plain ring and one in the order of sites, and two levels, with nodes of both sites alternating. Of
paths that were verified before, rate and delay.
"""

from __future__ import annotations

import argparse
import os

from analysis.predict import fitted
from analysis.predict.observations import cluster_of
from bench.tools.session import add_engine, count, known, measure, sizes
from bench.tools.table import Table
from cluster.spec.documents.summary import Summary
from cluster.spec.experiment import Experiment
from cluster.spec.sites import parse_sites

STEPS = 15


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    usual = "(default: %(default)s)"
    parser.add_argument("--sites", default="a:1,b:1,a:1,b:1,a:1,b:1", help=usual)
    parser.add_argument("--between", default="a-b:50mbit/40ms", help=usual)
    parser.add_argument("--link", default="1gbit", help=usual)
    parser.add_argument("--model", default="synthetic:2M:8", help=usual)
    parser.add_argument("--strategies", default="allreduce,hierarchical", help=usual)
    parser.add_argument("--steps", type=count, default=STEPS, help=usual)
    parser.add_argument("--background", help="such as 0-3:10mbit, beside none (default: none)")


def row(summary: Summary) -> tuple[str, ...]:
    run = Experiment.from_json(summary.spec)
    measured_s = known(known(summary.seconds).step_median_s)
    model = fitted.load()
    simulated_s = model.forecast(cluster_of(summary, run, os.cpu_count())).step_s
    return (
        run.strategy,
        run.ring_order or "ranks" if run.strategy != "hierarchical" else "-",
        run.background or "-",
        f"{1000 * measured_s:.0f} ms",
        f"{1000 * simulated_s:.0f} ms",
        f"{100 * (measured_s / simulated_s - 1):+.1f} %",
        f"{known(summary.per_step).ratio:.4f}",
        summary.fidelity.verdict if summary.fidelity else "-",
    )


def run(args: argparse.Namespace) -> Table:
    workers = len(parse_sites(args.sites))
    cases = ["--background", "none", "--background", args.background] if args.background else []
    summaries = measure(
        *("--engine", args.engine, "--workers", str(workers), "--sites", args.sites),
        *("--between", args.between, "--link", args.link, "--model", args.model),
        *("--strategy", args.strategies, "--ring-order", "ranks,sites", "--dilation", "1"),
        *(*cases, *sizes(workers, args.steps)),
    )
    paths = [link for summary in summaries for link in summary.links if "-" in link.node]
    off = max((abs(path.error) for path in paths), default=0.0)
    delays = sorted(path.delay_ms for path in paths if path.delay_ms is not None)
    held = f"; delays {delays[0]:.2f} to {delays[-1]:.2f} ms" if delays else ""
    return Table(
        f"{args.sites}, {args.between}, links {args.link}, {args.model}, {args.engine}; medians of"
        f" {args.steps} steps",
        (
            *("strategy", "ring order", "background", "step", "simulated", "difference"),
            *("measured/predicted bytes", "verdict"),
        ),
        [row(summary) for summary in summaries],
        [f"Paths as verified: within {100 * off:.2f} % of their rates{held}."],
    )
