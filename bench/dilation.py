"""Time dilation: the emulated step of the same experiment at K, 2K and 4K.

K is the least dilation at which all nodes fit on the cores; with two nodes on two cores it is 1, so
that the first step is that of the undilated cluster; --least asks for a larger one on a busy
machine, and --busy makes it one. Steps are compared with the quiet one at the least dilation, where
that was measured. Of several turns the run with the shortest step counts, among those that held:
whatever else a machine does only makes steps longer. A part of the table is measured in one call,
and kept in bench/dilation.csv; the table and the figure of docs/time.md are made of all parts, the
figure of those that held without --busy.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path

from bench.tools.dilation_figure import figure
from bench.tools.session import PROJECT, add_engine, count, counts, known, measure
from bench.tools.table import Table
from cluster.spec.dilation import least_dilation
from cluster.spec.documents.summary import HELD, Summary

STRATEGIES = "allreduce,gather-scatter,pairwise"
RESULTS = PROJECT / "bench" / "dilation.csv"
FIGURE = PROJECT / "docs" / "dilation.svg"


@dataclass(frozen=True)
class Reading:
    """One run."""

    engine: str
    model: str
    batch_size: int
    link: str
    workers: int
    strategy: str
    busy: int
    """Busy processes beside."""
    least: float
    """K of the series that it belongs to."""
    dilation: float
    step_ms: float
    compute_ms: float
    exchange_ms: float
    verdict: str
    turns: int
    """Runs that it was chosen from."""
    date: str

    @property
    def experiment(self) -> tuple[str, str, int, str]:
        return self.model, self.engine, self.workers, self.strategy

    @property
    def case(self) -> tuple[object, ...]:
        return *self.experiment, self.busy, self.least


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--workers", type=count, default=2, help="(default: %(default)s)")
    parser.add_argument("--model", default="mnist-cnn", help="(default: %(default)s)")
    parser.add_argument("--batch-size", type=count, default=256, help="(default: %(default)s)")
    parser.add_argument("--link", default="40mbit", help="(default: %(default)s)")
    parser.add_argument("--steps", type=count, default=20, help="(default: %(default)s)")
    parser.add_argument(
        "--repeat",
        type=count,
        default=5,
        help="turns through all dilations; the shortest held step counts (default: 5)",
    )
    parser.add_argument("--strategies", default=STRATEGIES, help="(default: %(default)s)")
    parser.add_argument("--least", type=float, help="K (default: the least that fits)")
    parser.add_argument("--busy", type=int, default=0, help="busy processes beside (default: 0)")
    parser.add_argument("--factors", type=counts, default=[1, 2, 4], help="of K (default: 1,2,4)")


def run(args: argparse.Namespace) -> Table:
    least = args.least or least_dilation(args.workers, os.cpu_count() or 1)
    dilations = ",".join(f"{least * factor:g}" for factor in args.factors)
    with busy_processes(args.busy):
        summaries = [
            summary
            for turn in range(1, args.repeat + 1)
            for summary in measure(
                *("--engine", args.engine, "--workers", str(args.workers), "--model", args.model),
                *("--batch-size", str(args.batch_size), "--link", args.link, "--epochs", "1"),
                *("--train-size", str(args.workers * args.batch_size * args.steps)),
                *("--test-size", "8", "--strategy", args.strategies, "--dilation", dilations),
                *("--seed", str(turn)),
            )
        ]
    repeats: dict[tuple[object, object], list[Summary]] = {}
    for summary in summaries:
        repeats.setdefault((summary.spec["strategy"], summary.spec["dilation"]), []).append(summary)
    new = [reading(args, same, least) for same in repeats.values()]
    readings = merged(read(RESULTS), new)
    write(RESULTS, readings)
    rows = list(cases(readings))
    held = [case for case in rows if all(r.verdict == HELD and not r.busy for r in case)]
    FIGURE.write_text(figure([(_name(case[0]), *_ratios(case)) for case in held]))
    return table(rows)


def _name(found: Reading) -> str:
    return f"{found.model}, {found.workers} nodes, {found.strategy}, {found.engine}"


def reading(args: argparse.Namespace, repeats: Sequence[Summary], least: float) -> Reading:
    """The run that was least disturbed: the shortest step of those that held, if any did."""
    held = [summary for summary in repeats if known(summary.fidelity).verdict == HELD]
    best = min(held or repeats, key=lambda summary: milliseconds(summary, "step_median_s"))
    return Reading(
        engine=args.engine,
        model=args.model,
        batch_size=args.batch_size,
        link=args.link,
        workers=args.workers,
        strategy=str(best.spec["strategy"]),
        busy=args.busy,
        least=least,
        dilation=float(best.spec["dilation"] or 1),
        step_ms=milliseconds(best, "step_median_s"),
        compute_ms=milliseconds(best, "compute_median_s"),
        exchange_ms=milliseconds(best, "exposed_communication_median_s"),
        verdict=known(best.fidelity).verdict,
        turns=len(repeats),
        date=date.today().isoformat(),
    )


def milliseconds(summary: Summary, name: str) -> float:
    return float(round(1000 * known(getattr(known(summary.seconds), name)), 2))


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def merged(old: Iterable[Reading], new: Iterable[Reading]) -> list[Reading]:
    """The newest reading of every case and dilation, in order."""
    found = {(r.case, r.dilation): r for r in (*old, *new)}
    return [found[key] for key in sorted(found)]


def cases(readings: Iterable[Reading]) -> Iterable[list[Reading]]:
    """Readings of one case, by dilation."""
    by_case: dict[object, list[Reading]] = {}
    for found in readings:
        by_case.setdefault(found.case, []).append(found)
    return by_case.values()


def _ratios(case: list[Reading]) -> tuple[list[float], list[float]]:
    """Dilations, and emulated steps over that of the least dilation."""
    return [r.dilation for r in case], [r.step_ms / case[0].step_ms for r in case]


def table(rows: Iterable[list[Reading]]) -> Table:
    rows, cells = list(rows), []
    quiet = {case[0].experiment: case[0].step_ms for case in rows[::-1] if not case[0].busy}
    for case in rows:
        first, (dilations, _) = case[0], _ratios(case)
        usual = quiet.get(first.experiment, first.step_ms)
        off = max((found.step_ms / usual - 1 for found in case), key=abs)
        cells.append(
            (
                f"{first.model}, batch {first.batch_size}, {first.link}, {first.engine}",
                str(first.workers),
                first.strategy,
                str(first.busy),
                ", ".join(f"{dilation:g}" for dilation in dilations),
                " / ".join(f"{r.step_ms:.1f}" for r in case),
                " / ".join(f"{r.exchange_ms:.1f}" for r in case),
                f"{100 * off:+.1f} %",
                ", ".join(dict.fromkeys(r.verdict for r in case)),
            )
        )
    return Table(
        f"Emulated time on {os.cpu_count()} cores; median steps of the shortest turn",
        (
            *("experiment", "nodes", "strategy", "busy", "dilation", "step (ms)"),
            *("of it exchange (ms)", "furthest from quiet", "verdict"),
        ),
        cells,
    )


def read(path: Path) -> list[Reading]:
    if not path.exists():
        return []
    kinds = {field.name: field.type for field in fields(Reading)}
    parsers = {"int": int, "float": float, "str": str}
    with path.open(newline="") as file:
        return [
            Reading(**{name: parsers[str(kinds[name])](text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]


def write(path: Path, readings: Iterable[Reading]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Reading)])
        writer.writeheader()
        writer.writerows(asdict(found) for found in readings)
