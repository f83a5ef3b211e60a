"""How well the cost model predicts runs it has not seen: python -m bench.predict

Measures a grid of real runs on shaped links and on free ones, fits analysis/predict/cost_model.py to it, measures other runs
(other N, another rate, other sizes) and prints the errors on those, by strategy; then, apart, those on the default
model, whose nodes compute and so share this machine's cores. 25 minutes on two cores that do nothing else.

    python -m bench.predict --output FOLDER          keep the runs; those that are there already are not made again
    python -m bench.predict --save                   and make the result the model that gradwire comes with
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from analysis.predict.command import own_error
from analysis.predict.cost_model import Observation
from analysis.predict.fitted import SHIPPED, Fitted, errors, fit_to, observe_all, save
from cluster.spec.run_folder import find_runs

PROJECT = Path(__file__).resolve().parent.parent
STRATEGIES = (
    "allreduce,ring,allgather,gather-scatter,reduce-broadcast,parameter-server,ddp,pairwise"
)


@dataclass(frozen=True)
class Grid:
    workers: tuple[int, ...]
    models: str
    links: tuple[str | None, ...]


FITTED = (
    Grid(
        (2, 4, 6),
        "synthetic:80k:4:20ms,synthetic:600k,synthetic:2.4M",
        ("50mbit,200mbit", None),
    ),
)
"""The smallest computes, as a real model does: what gathers in a throttled link's bucket meanwhile is part of it."""
HELD_OUT = (
    Grid((3, 5, 8), "synthetic:1.2M,synthetic:4M", ("100mbit",)),
    Grid((7,), "synthetic:900k,synthetic:3M", ("70mbit,150mbit",)),
    Grid((3, 5), "synthetic:87k:8:10ms,synthetic:200k:8:30ms", ("100mbit",)),
)
"""Left out of the fit; the model's form was chosen with some of them in view."""
REAL = (Grid((6,), "mnist-cnn", ("100mbit",)),)
STEPS = 9
"""The first warms up, as everywhere."""


def measure(output: Path, workers: int, models: str, links: str | None) -> None:
    command = [str(PROJECT / "measure.sh"), "--engine", "netns", "--quiet", "--output", str(output)]
    command += ["--strategy", STRATEGIES, "--passes", "1", "--workers", str(workers)]
    command += ["--model", models, "--epochs", "1", *(["--link", links] if links else [])]
    if models.startswith("synthetic"):
        command += ["--batch-size", "1", "--train-size", str(workers * STEPS)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make(output: Path, *grids: Grid) -> list[Observation]:
    if not find_runs(output):
        for grid in grids:
            for workers, link in itertools.product(grid.workers, grid.links):
                print(f"measuring {workers} workers, links {link or 'free'}", file=sys.stderr)
                measure(output, workers, grid.models, link)
    return observe_all(find_runs(output))


def table(model: Fitted, held_out: list[Observation]) -> None:
    print(
        f"{'strategy':<18}{'runs':>6}{'step, median':>14}{'step, worst':>14}{'bytes, median':>15}"
    )
    for strategy in dict.fromkeys(one.cluster.strategy for one in held_out):
        found = errors((model, one) for one in held_out if one.cluster.strategy == strategy)
        if found:
            print(
                f"{strategy:<18}{found.runs:>6}{found.step_median:>14.1%}{found.step_worst:>14.1%}"
                f"{found.bytes_median:>15.3%}"
            )
    print(own_error(model))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, help="where runs are kept (default: nowhere)")
    parser.add_argument("--save", action="store_true", help=f"write {SHIPPED.name}")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as temporary:
        output = args.output or Path(temporary)
        seen = make(output / "fit", *FITTED)
        held_out = make(output / "held-out", *HELD_OUT)
        real = make(output / "real", *REAL)
    model = fit_to(seen, held_out)
    shaped = [one for one in seen if one.cluster.rate_mbit is not None]
    print(
        f"fitted to {len(seen)} runs, {len(shaped)} of them on shaped links; held out: {len(held_out)}"
    )
    table(model, held_out)
    worst = [abs(model.forecast(one.cluster).step_s / one.step_s - 1) for one in held_out]
    print(f"median error of a step: {median(worst):.2%} (asked: at most 10 %)")
    print("\nthe default model, on links throttled to 100mbit:")
    table(dataclasses.replace(model, errors=errors((model, one) for one in real)), real)
    if args.save:
        save(model, SHIPPED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
