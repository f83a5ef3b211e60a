"""What `--on-failure continue` costs a run without faults: step time and bytes, over `stop`'s.

Sessions take turns, and which comes first changes from turn to turn. Small models have the shortest
steps, so that keeping a state after every step shows most. Medians of the turns, and the spread of
their ratios.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from bench.tools.session import add_engine, count, known, measure
from bench.tools.table import Table
from cluster.spec.faults.checks import CONTINUE, STOP

TRAINING = ("--epochs", "1", "--batch-size", "256", "--train-size")
STRATEGIES = ("allreduce", "pairwise", "local-sgd")


class Cost(NamedTuple):
    step_s: float
    sent_bytes: float
    """In training, in all."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--turns", type=count, default=7, help="(default: %(default)s)")
    parser.add_argument("--workers", type=count, default=2, help="(default: %(default)s)")
    parser.add_argument("--steps", type=count, default=60, help="of a run (default: %(default)s)")


def of_session(args: argparse.Namespace, on_failure: str) -> dict[str, Cost]:
    """By strategy."""
    own = ("--engine", args.engine, "--workers", str(args.workers), "--on-failure", on_failure)
    size = str(256 * args.workers * args.steps)
    found = measure(*own, "--strategy", ",".join(STRATEGIES), *TRAINING, size)
    return {
        str(summary.spec["strategy"]): Cost(
            known(known(summary.seconds).step_median_s), known(summary.bytes).train.sent_bytes
        )
        for summary in found
    }


def row(name: str, found: Sequence[tuple[Cost, Cost]]) -> tuple[str, ...]:
    ratios = sorted(goes_on.step_s / stops.step_s for goes_on, stops in found)
    goes_on_s, stops_s = (
        median(cost.step_s for cost in costs) for costs in zip(*found, strict=True)
    )
    sent = median(goes_on.sent_bytes / stops.sent_bytes for goes_on, stops in found)
    return (
        name,
        f"{1000 * goes_on_s:.3f} ms",
        f"{1000 * stops_s:.3f} ms",
        f"{median(ratios):.4f}",
        f"{ratios[0]:.4f} to {ratios[-1]:.4f}",
        f"{sent:.5f}",
    )


def run(args: argparse.Namespace) -> Table:
    turns: list[dict[str, dict[str, Cost]]] = []
    for turn in range(args.turns):
        order = (STOP, CONTINUE) if turn % 2 else (CONTINUE, STOP)
        turns.append({how: of_session(args, how) for how in order})
    return Table(
        f"{args.engine}, {args.workers} nodes, {args.turns} turns; mnist-cnn, batches of 256",
        ("strategy", "step, continue", "step, stop", "ratio, median", "ratios", "bytes, ratio"),
        [
            row(name, [(found[CONTINUE][name], found[STOP][name]) for found in turns])
            for name in STRATEGIES
        ],
    )
