"""Do the workloads learn what they should? python -m bench.learning [CASE...]

Accuracy of whole runs beside what they must reach: mnist (a minute), large-batch (a few minutes), rte (half an
hour) and resnet18 (an hour), on two cores that have nothing else to do. RTE needs its files: --data-dir.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.exchange import measure

MNIST = "--train-size 60000 --lr 0.05 --momentum 0.5"
LARGE = f"--strategy allreduce --workers 8 --epochs 5 {MNIST}"
CASES = {
    "mnist": [f"--strategy single --epochs 3 {MNIST}"],
    "large-batch": [
        f"--strategy single --epochs 5 {MNIST}",
        f"{LARGE} --lr-rule none",
        f"{LARGE} --lr-rule sqrt --warmup-epochs 1",
        f"{LARGE} --lr-rule linear --warmup-epochs 1",
    ],
    "rte": ["--strategy single --workload bert-rte --model bert-minilm"],
    "resnet18": [
        "--strategy single --workload resnet18-cifar10 --train-size 10000 --epochs 5 --batch-size 32"
        " --lr 0.02 --weight-decay 5e-4 --augment no"
    ],
}
WANTED = {
    "mnist": "at least 98 %",
    "large-batch": "linear with warm-up: within 1 point of the first",
    "rte": "more than 52.71 %, the share of the larger class",
    "resnet18": "at least 55 %",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], help="(default: all)")
    parser.add_argument("--data-dir", type=Path, help="a folder that holds the data sets")
    args = parser.parse_args()
    given = ("--data-dir", str(args.data_dir)) if args.data_dir else ()
    for case in args.cases or CASES:
        print(f"{case}: {WANTED[case]}")
        for flags in CASES[case]:
            (summary,) = measure("--engine", "netns", *flags.split(), *given)
            curve = ", ".join(f"{point['accuracy']:.2%}" for point in summary["curve"])
            rate = summary["training"]["learning_rate"]
            print(
                f"  {summary['spec']['strategy']}, {summary['spec']['workers']} workers,"
                f" rate {rate['full']:g} ({rate['rule']}, {rate['warmup_steps']} steps to warm up):"
                f" {summary['accuracy']:.2%} (by epoch: {curve})",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
