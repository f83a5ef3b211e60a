"""Error of predictions on runs that the host's costs were not fitted to.

Measures the runs of bench/runs/fitted.toml and bench/runs/left-out.toml, which a seeded draw listed
beforehand (bench/runs/draw.py), fits the costs to the first and prints the errors on the second:
of steps, of exchanges and of bytes. Runs on a contended host are left out. 15 minutes on two idle
cores.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from analysis.predict.fitted import SHIPPED, Fitted, save
from analysis.predict.fitting import errors, fit_to
from analysis.predict.observations import Observation, observe_all
from bench.runs.draw import FOLDER
from bench.tools.session import call
from bench.tools.table import Table
from cluster.spec.documents.run_folder import find_runs


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", type=Path, help="keep the runs there; runs that are there are used again"
    )
    parser.add_argument("--save", action="store_true", help=f"write the fit to {SHIPPED.name}")


def observe(output: Path, name: str) -> list[Observation]:
    """The runs of a list, measured unless the folder has them."""
    folder = output / name
    if not (folder.is_dir() and find_runs(folder)):
        preset = str(FOLDER / f"{name}.toml")
        call("--engine", "netns", "--output", str(folder), "--preset", preset)
    return observe_all(find_runs(folder))


def rows(model: Fitted, runs: Sequence[Observation]) -> list[tuple[str, ...]]:
    groups: dict[str, list[Observation]] = {"all": list(runs)}
    for seen in runs:
        groups.setdefault(seen.cluster.strategy, []).append(seen)
    for name, is_in in KINDS.items():
        groups[name] = [seen for seen in runs if is_in(seen)]
    found = {name: errors(group, model.costs) for name, group in groups.items()}
    return [
        (
            name,
            str(error.runs),
            *(f"{100 * value:.1f} %" for value in (error.step_median, error.step_worst)),
            *(f"{100 * value:.1f} %" for value in (error.exchange_median, error.exchange_worst)),
            *(f"{100 * value:.2f} %" for value in (error.bytes_median, error.bytes_worst)),
        )
        for name, error in found.items()
        if error
    ]


KINDS: dict[str, Callable[[Observation], bool]] = {
    "slow nodes": lambda seen: bool(seen.cluster.slow),
    "no straggler": lambda seen: not seen.cluster.stragglers,
    "codecs": lambda seen: seen.cluster.compress != "none",
    "models below 100 kB": lambda seen: seen.cluster.model_bytes < 100_000,
}


def run(args: argparse.Namespace) -> Table:
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as temporary:
        output = args.output or Path(temporary)
        seen, held_out = (observe(output, name) for name in ("fitted", "left-out"))
    model = fit_to(seen, held_out)
    if args.save:
        save(model, SHIPPED)
    return Table(
        f"fitted to {model.runs} runs: a message takes {1e6 * model.message_s:.0f} µs, a byte"
        f" {1e9 * model.byte_s:.2f} ns",
        (
            *("runs of", "runs", "step, median", "step, maximum"),
            *("exchange, median", "exchange, maximum", "bytes, median", "bytes, maximum"),
        ),
        rows(model, held_out),
    )
