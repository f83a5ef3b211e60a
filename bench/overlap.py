"""What hiding communication behind backward is worth: python -m bench.overlap

A synthetic model of 16 MB in 64 layers whose backward sleeps as long as its all-reduce must take on links of
100 Mbit: nobody can be faster than that time, and without overlap a step takes twice as long. Prints each
way's step time over it, all in one session; for ddp with its default buckets and with several others.
"""

from __future__ import annotations

import argparse
import sys

from analysis.theory import predicted_bytes as theory
from bench.exchange import measure

WORKERS, LINK_MBIT, MODEL_BYTES, LAYERS = 4, 100, 16_000_000, 64
DDP_BUCKETS = "0.1,0.25,0.5,1,2,5"
STEPS = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", default="netns", choices=("netns", "docker"))
    args = parser.parse_args()
    predicted = theory.predict("allreduce", workers=WORKERS, model_bytes=MODEL_BYTES)
    least_s = theory.lower_bound_s(predicted, [LINK_MBIT] * WORKERS)
    model = f"synthetic:{MODEL_BYTES}:{LAYERS}:0s+{least_s:.4f}s"
    sizes = ("--epochs", "1", "--batch-size", "1", "--train-size", str(WORKERS * STEPS))
    common = ("--engine", args.engine, "--workers", str(WORKERS), "--link", f"{LINK_MBIT}mbit")
    steps = {}
    for name, flags in {
        "allreduce": ("--strategy", "allreduce,ddp"),
        "allreduce overlapped": ("--strategy", "allreduce", "--overlap"),
        "ddp": ("--strategy", "ddp", "--bucket-mb", DDP_BUCKETS),
    }.items():
        for summary in measure(*common, "--model", model, *sizes, *flags):
            spec = summary["spec"]
            label = name if spec["strategy"] == "allreduce" else "ddp"
            if spec["bucket_mb"] is not None:
                label += f", buckets of {spec['bucket_mb']:g} MiB"
            steps[label] = float(summary["seconds"]["step_median"])
    ours = steps["allreduce overlapped"]
    best = min((name for name in steps if name.startswith("ddp")), key=lambda name: steps[name])
    print(
        f"{WORKERS} workers, {model}, {LINK_MBIT} Mbit: backward and communication {least_s:.3f} s each"
    )
    print(f"{'':<30}{'step':>10}{'over that':>12}{'over ours':>12}")
    for name, step_s in steps.items():
        print(f"{name:<30}{step_s:>8.3f} s{step_s / least_s:>12.3f}{step_s / ours:>12.3f}")
    print(f"best ddp: {best}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
