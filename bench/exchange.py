"""How fast an exchange is, against what the link allows: python -m bench.exchange

    python -m bench.exchange --link 100mbit --workers 4 --model synthetic:4M
    python -m bench.exchange --link none        # free links: time against that of ddp

Runs every strategy on one machine in one session and prints the time of an exchange over its lower bound
(analysis/theory/predicted_bytes.py: bytes of the busiest link, headers included, over its rate). reduce-broadcast and ddp are
there to compare with; nothing is promised for them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from analysis.theory import predicted_bytes as theory
from cluster.spec.experiment import Experiment

PROJECT = Path(__file__).resolve().parent.parent
STRATEGIES = (
    "allreduce,ring,allgather,gather-scatter,reduce-broadcast,pairwise,ddp,parameter-server"
)
ROUNDS = 12


def measure(*flags: str) -> list[dict[str, Any]]:
    """The summaries of one session."""
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as output:
        command = [str(PROJECT / "measure.sh"), *flags, "--output", output, "--quiet", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return list(json.loads(done.stdout))


def bound_s(summary: dict[str, Any]) -> float:
    spec = Experiment.from_json(summary["spec"])
    predicted = theory.predict(
        spec.strategy,
        workers=spec.workers,
        model_bytes=summary["model_bytes"],
        passes=spec.passes,
        schedule=spec.schedule,
        rounds=spec.rounds,
    )
    return theory.lower_bound_s(predicted, spec.rates_mbit)


def exchange_s(summary: dict[str, Any]) -> float:
    """ddp cannot tell its exchange from its step; a step of a model that computes nothing is one."""
    seconds = summary["seconds"]
    return float(seconds["exposed_communication_median"] or seconds["step_median"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", default="netns", choices=("netns", "docker"))
    parser.add_argument("--link", default="100mbit", help="or none (default: %(default)s)")
    parser.add_argument("--bottleneck", help="such as 2:20mbit (default: none)")
    parser.add_argument("--workers", type=int, default=4, help="(default: %(default)s)")
    parser.add_argument("--model", default="synthetic:4M", help="(default: %(default)s)")
    parser.add_argument("--strategies", default=STRATEGIES, help="a list (default: all)")
    args = parser.parse_args()
    link = [] if args.link == "none" else ["--link", args.link]
    link += ["--bottleneck", args.bottleneck] if args.bottleneck else []
    sizes = ["--epochs", "1", "--batch-size", "1", "--train-size", str(args.workers * ROUNDS)]
    summaries = measure(
        *("--engine", args.engine, "--workers", str(args.workers), "--model", args.model),
        *("--strategy", args.strategies, *link, *sizes),
    )
    print(
        f"{args.workers} workers, {args.model}, links {args.link}, bottleneck {args.bottleneck}, {args.engine}: medians over {ROUNDS}"
    )
    print(f"{'strategy':<18}{'exchange':>12}{'bound':>12}{'time/bound':>12}{'bytes':>8}")
    for summary in summaries:
        time_s, least_s = exchange_s(summary), bound_s(summary)
        ratio = f"{time_s / least_s:.3f}" if least_s else "-"
        print(
            f"{summary['spec']['strategy']:<18}{1000 * time_s:>9.1f} ms{1000 * least_s:>9.1f} ms"
            f"{ratio:>12}{summary['per_step']['ratio']:>8.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
