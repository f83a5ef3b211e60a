"""Measured over predicted bytes for every strategy, number of workers and size of model: python -m bench.bytes

    python -m bench.bytes --workers 2,3,4,6 --sizes 1M,4M,25M --engine netns

On links that nobody throttled. The tests do some of these in every run; this does them all, and says which is
furthest off, on average over the workers and at the busiest node.
"""

from __future__ import annotations

import argparse
import sys

from bench.exchange import measure
from cluster.spec.strategies import STRATEGIES

ALL = ",".join(name for name, facts in STRATEGIES.items() if facts.exchanges)
STEPS = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", default="netns", choices=("netns", "docker"))
    parser.add_argument("--workers", default="2,3,4,6", help="a list (default: %(default)s)")
    parser.add_argument("--sizes", default="1M,4M,25M", help="a list (default: %(default)s)")
    parser.add_argument("--compress", default="none", help="(default: %(default)s)")
    args = parser.parse_args()
    print(
        f"{'workers':>7}{'model':>7}  {'furthest off, mean':<32}{'furthest off, busiest node':<32}"
    )
    for workers in args.workers.split(","):
        for size in args.sizes.split(","):
            summaries = measure(
                *("--engine", args.engine, "--workers", workers, "--strategy", ALL),
                *("--model", f"synthetic:{size}:8", "--local-steps", "1", "--epochs", "1"),
                *("--batch-size", "1", "--train-size", str(int(workers) * STEPS)),
                *("--compress", args.compress),
            )
            cells = []
            for kind in ("mean", "max"):
                ratios = {
                    s["spec"]["strategy"]: s["per_step"][f"sent_{kind}"]
                    / s["per_step"][f"predicted_{kind}"]
                    for s in summaries
                }
                worst = max(ratios, key=lambda name: abs(ratios[name] - 1))
                cells.append(f"{ratios[worst]:.4f} {worst}")
            print(f"{workers:>7}{size:>7}  {cells[0]:<32}{cells[1]:<32}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
