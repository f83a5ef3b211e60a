"""Does a model that only pretends take the time it says? python -m bench.pretence

Sixteen workers on however few cores, each with a synthetic model whose step takes a given time: what a step
took without its exchange, over that time. Within 3 % is the aim.
"""

from __future__ import annotations

import argparse
import sys

from bench.exchange import measure

COMPUTE_S = (0.05, 0.2, 1.0)
STEPS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", default="netns", choices=("netns", "docker"))
    parser.add_argument("--workers", type=int, default=16, help="(default: %(default)s)")
    args = parser.parse_args()
    print(f"{args.workers} workers")
    for compute_s in COMPUTE_S:
        (summary,) = measure(
            *("--engine", args.engine, "--workers", str(args.workers)),
            *("--model", f"synthetic:40k:10:{compute_s}s", "--strategy", "allreduce"),
            *("--epochs", "1", "--batch-size", "1", "--train-size", str(args.workers * STEPS)),
        )
        took_s = summary["seconds"]["compute_median"]
        print(f"asked {compute_s:g} s, took {took_s:.4f} s, ratio {took_s / compute_s:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
