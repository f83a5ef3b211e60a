"""Step time with communication overlapped with backward, over the longer of the two.

A synthetic model of 16 MB in 64 layers sleeps in backward as long as its all-reduce takes on
links of 100 Mbit/s. The ideal step takes that long; without overlap a step takes twice as long.
`ddp` is measured with its default buckets and with six other sizes.
"""

from __future__ import annotations

import argparse

from analysis.theory import predicted_bytes as theory
from bench.tools.session import add_engine, known, measure, sizes
from bench.tools.table import Table
from cluster.spec.links import parse_link
from cluster.spec.schedules.messages import Setting

WORKERS, LINK_MBIT, MODEL_BYTES, LAYERS = 4, 100, 16_000_000, 64
DDP_BUCKETS = "0.1,0.25,0.5,1,2,5"
STEPS = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)


def run(args: argparse.Namespace) -> Table:
    predicted = theory.predict("allreduce", Setting(workers=WORKERS, model_bytes=MODEL_BYTES))
    ideal_s = theory.lower_bound_s(predicted, [parse_link(f"{LINK_MBIT}mbit")] * WORKERS)
    model = f"synthetic:{MODEL_BYTES}:{LAYERS}:0s+{ideal_s:.4f}s"
    common = ("--engine", args.engine, "--workers", str(WORKERS), "--link", f"{LINK_MBIT}mbit")
    steps = {}
    for name, flags in {
        "allreduce": ("--strategy", "allreduce,ddp"),
        "allreduce --overlap": ("--strategy", "allreduce", "--overlap"),
        "ddp": ("--strategy", "ddp", "--bucket-mb", DDP_BUCKETS),
    }.items():
        for summary in measure(*common, "--model", model, *sizes(WORKERS, STEPS), *flags):
            spec = summary.spec
            label = name if spec["strategy"] == "allreduce" else "ddp"
            if spec["bucket_mb"] is not None:
                label += f" --bucket-mb {spec['bucket_mb']:g}"
            steps[label] = known(known(summary.seconds).step_median_s)
    ours = steps["allreduce --overlap"]
    return Table(
        f"{WORKERS} workers, {model}, {LINK_MBIT} Mbit/s, {args.engine}; backward and communication"
        f" take {ideal_s:.3f} s each",
        ("strategy", "step", "over the ideal step", "over allreduce --overlap"),
        [
            (name, f"{step_s:.3f} s", f"{step_s / ideal_s:.3f}", f"{step_s / ours:.3f}")
            for name, step_s in steps.items()
        ],
    )
