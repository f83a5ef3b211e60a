"""Accuracy of whole training runs beside what they must reach.

On two idle cores `mnist` takes a minute, `large-batch` a few minutes, `rte` half an hour and
`resnet18` an hour.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.tools.session import known, measure
from bench.tools.table import Table

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
        "--strategy single --workload resnet18-cifar10 --train-size 10000 --epochs 5"
        " --batch-size 32 --lr 0.02 --weight-decay 5e-4 --augment no"
    ],
}
TARGETS = {
    "mnist": "at least 98 %",
    "large-batch": "linear: within 1 point of one worker",
    "rte": "above the chance level, 52.71 %",
    "resnet18": "at least 55 %",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], help="(default: all)")
    parser.add_argument("--data-dir", type=Path, help="a folder that holds the data sets")


def run(args: argparse.Namespace) -> Table:
    data = ("--data-dir", str(args.data_dir)) if args.data_dir else ()
    rows = []
    for case in args.cases or CASES:
        for flags in CASES[case]:
            (summary,) = measure("--engine", "netns", *flags.split(), *data)
            rate = known(known(summary.training).learning_rate)
            rows.append(
                (
                    case,
                    str(summary.spec["workers"]),
                    f"{rate.full:g} ({rate.rule})",
                    str(rate.warmup_steps),
                    f"{100 * known(summary.accuracy):.2f} %",
                    TARGETS[case],
                )
            )
    columns = ("case", "workers", "learning rate", "warm-up steps", "accuracy", "target")
    return Table("netns, seed 1", columns, rows)
