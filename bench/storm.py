"""Eight strategies under the same storm: what ten minutes with a fault a minute cost each.

Runs of the preset storm, every strategy in a session of its own, and several sessions beside each
other: the network sleeps instead of computing (workloads/presets/light.py), so they fit on two
cores. Two of the strategies also have two other draws of the storm. Goodput: steps a second that
count, over those of the same run without faults; `-` where the host was contended in one of the
two.
"""

from __future__ import annotations

import argparse
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.tools.session import PROJECT, add_engine, call, count, known
from bench.tools.table import Table
from cluster.observe.units import bytes_text, percent_text
from cluster.spec.documents.codec import parse_json
from cluster.spec.documents.summary import NO_CONCLUSION, Summary

PRESET = PROJECT / "workloads" / "presets" / "storm.toml"
SEVERAL = ("allreduce", "pairwise")
"""Strategies with three draws."""
SEEDS = (8, 9)
COLUMNS = (
    *("strategy", "seed", "goodput", "participation", "faults", "recovery", "accuracy"),
    *("against no faults", "step", "times"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--quick", action="store_true", help="half a minute a run")
    parser.add_argument(
        "--beside", type=count, default=5, help="sessions at a time (default: %(default)s)"
    )
    parser.add_argument("--keep", type=Path, help="keep the sessions, for a report, in this folder")


def sessions(args: argparse.Namespace) -> Iterator[list[str]]:
    """The flags of each."""
    preset = tomllib.loads(PRESET.read_text())
    storm = (preset["quick"] if args.quick else preset["runs"][0])["storm"][1]
    own = ["--engine", args.engine, "--preset", "storm", *(["--quick"] if args.quick else [])]
    for strategy in preset["runs"][0]["strategy"]:
        yield [*own, "--strategy", strategy]
    others = [storm.replace("seed=7", f"seed={seed}") for seed in SEEDS]
    for strategy in SEVERAL:
        yield [*own, "--strategy", strategy, *(part for o in others for part in ("--storm", o))]


def run(args: argparse.Namespace) -> Table:
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as folder:
        output = ("--output", str(args.keep or folder))
        with ThreadPoolExecutor(args.beside) as pool:
            found = list(pool.map(lambda flags: measure_in(output, flags), sessions(args)))
    setting = f"{args.engine}, 6 workers, {args.beside} sessions at a time"
    return Table(setting, COLUMNS, rows([summary for session in found for summary in session]))


def measure_in(output: Sequence[str], flags: Sequence[str]) -> list[Summary]:
    return [Summary.from_json(found) for found in parse_json(call(*flags, "--json", *output))]


def rows(found: Sequence[Summary]) -> list[tuple[str, ...]]:
    calm = {str(run.spec["strategy"]): run for run in found if run.spec["storm"] is None}
    stormy = [run for run in found if run.spec["storm"] is not None]
    return [row(run, calm[str(run.spec["strategy"])]) for run in stormy]


def row(run: Summary, calm: Summary) -> tuple[str, ...]:
    strategy, seed = str(run.spec["strategy"]), str(run.spec["storm"]).rpartition("=")[2]
    if run.faults is None or run.accuracy is None:
        return (strategy, seed, *["-"] * 7, f"{run.status}: {run.error}")
    changed = run.accuracy - known(calm.accuracy)
    return (
        strategy,
        seed,
        goodput(run, calm),
        percent_text(known(run.faults.participation), 1),
        str(len(run.faults.faults)),
        bytes_text(run.faults.recovered_bytes),
        percent_text(run.accuracy),
        percent_text(changed, 2, signed=True),
        f"{1000 * known(known(run.seconds).step_median_s):.0f} ms",
        known(run.fidelity).verdict,
    )


def goodput(run: Summary, calm: Summary) -> str:
    if any(known(summary.fidelity).verdict in NO_CONCLUSION for summary in (run, calm)):
        return "-"
    faults = known(run.faults)
    stormy_per_s = known(faults.committed_steps) / known(faults.train_s)
    calm_per_s = known(calm.steps) / known(known(calm.seconds).train_s)
    return percent_text(stormy_per_s / calm_per_s, 1)
