"""Every run so far: a table here, all numbers in a CSV, and one HTML page.

python -m analysis.network_report                      reads runs/, writes report/
python -m analysis.network_report runs/SESSION --output FOLDER
"""

from __future__ import annotations

from analysis import own_environment

if __name__ == "__main__":
    own_environment.enter("analysis.network_report")  # before anything that needs pandas

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
from rich.console import Console
from rich.table import Table

from analysis.figures import accuracy_against_bytes
from analysis.load import KNOBS, Runs, load_runs
from analysis.page import Row, render
from cluster.records import HEADER_BYTES
from cluster.run_folder import RunFolder, find_runs
from cluster.units import bytes_text, seconds_text

EXAMPLE = "./measure.sh --workers 6 --passes 2"


four_digits = functools.partial(bytes_text, digits=4)

OVERVIEW: list[tuple[str, str, str, Callable[[Any], str]]] = [
    ("accuracy", "accuracy", "accuracy", "{:.2%}".format),
    ("sent", "sent per worker and step", "sent_per_step_bytes", four_digits),
    ("predicted", "predicted", "predicted_per_step_bytes", four_digits),
    ("ratio", "sent / predicted", "sent_over_predicted", "{:.3f}".format),
    ("per step", "time per step", "step_median_s", seconds_text),
    ("counters", "counters agree within", "counters_largest_difference", "{:.4%}".format),
]
"""Heading here, heading on the page, column, and how its numbers are written."""

SENTENCE = (
    "What each training run sent over the network, measured and predicted,"
    " beside the accuracy it reached."
)
NOTE = (
    f"Sent is the payload of the training phase: the bytes its interface counted less {HEADER_BYTES}"
    " for every packet's headers, mean over workers. Predicted is what theory says the strategy must"
    " send. Time per step is the median. Counters: how far the kernel's and Docker's, where read,"
    " are from the worker's own. Accuracy is of the average of all workers' models, on the whole"
    " test set."
)
CAPTION = (
    "One point per epoch, scored on a fifth of the test set; a diamond, the end of a run, on all of it."
    " Bytes are as the interfaces count them, headers too."
)


def differing(runs: pd.DataFrame) -> list[str]:
    """The knobs that tell these runs apart."""
    readable = runs[runs["strategy"].notna()]
    return [knob for knob in KNOBS if readable[knob].nunique(dropna=False) > 1]


def label(run: pd.Series[Any], knobs: Sequence[str]) -> str:
    """What was run, in words; a run that cannot be read has only its name."""
    if pd.isna(run["strategy"]):
        return str(run["run"])
    schedule = "" if pd.isna(run["schedule"]) else f" ({run['schedule']})"
    workers = f"{run['workers']} worker{'s' * (run['workers'] != 1)}"
    passes = [] if pd.isna(run["passes"]) else [f"passes {run['passes']}"]
    others = [f"{k.replace('_', ' ')} {_value(run[k])}" for k in knobs if not pd.isna(run[k])]
    return ", ".join([run["strategy"] + schedule, workers, *passes, *others])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def cells(run: pd.Series[Any]) -> list[str]:
    return ["-" if pd.isna(run[name]) else text(run[name]) for _, _, name, text in OVERVIEW]


def problem(run: pd.Series[Any]) -> str:
    """Empty for a completed run; else its status and why."""
    if run["status"] == "completed":
        return ""
    return str(run["status"]) + ("" if pd.isna(run["error"]) else f": {run['error']}")


def print_table(runs: pd.DataFrame, console: Console) -> None:
    """A session, then its runs. Where the window is narrow, names are folded, numbers never."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("run", overflow="fold")
    for heading, *_ in OVERVIEW:
        table.add_column(heading, justify="right", no_wrap=True)
    if (runs["status"] != "completed").any():
        table.add_column("status", no_wrap=True)
    for session, members in runs.groupby("session", sort=False):
        table.add_row(str(session))
        for _, run in members.iterrows():
            style = "red" if problem(run) else None
            texts = ["  " + run["run"], *cells(run), run["status"]]
            table.add_row(*texts[: len(table.columns)], style=style)
    console.print("payload sent per worker and step, measured and predicted")
    console.print(table)
    for _, run in runs.iterrows():
        if problem(run):
            console.print(f"{run['session']}/{run['run']}: {problem(run)}", soft_wrap=True)


def write_report(runs: Runs, output: Path) -> None:
    labels, rows = [], []
    knobs = differing(runs.table)
    for _, run in runs.table.iterrows():
        labels.append(label(run, knobs))
        place = f"{run['session']}/{run['run']}"
        where = place if pd.isna(run["engine"]) else f"{run['engine']} {place}"
        rows.append(Row(labels[-1], where, cells(run), problem(run)))
    page = render(
        title="gradwire network report",
        sentence=SENTENCE,
        headings=[heading for _, heading, *_ in OVERVIEW],
        rows=rows,
        note=NOTE,
        figure=accuracy_against_bytes(runs, labels),
        caption=CAPTION,
    )
    (output / "tables").mkdir(parents=True, exist_ok=True)
    runs.table.to_csv(output / "tables" / "runs.csv", index=False)
    (output / "report.html").write_text(page, encoding="utf-8")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _Parser(
        prog="python -m analysis.network_report",
        description="Every run so far: a table here, all numbers in a CSV, and one HTML page.",
    )
    where = "runs, sessions or folders of them (default: runs)"
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUNS", help=where)
    what = "where report.html and tables/runs.csv go (default: report)"
    parser.add_argument("--output", type=Path, default="report", metavar="FOLDER", help=what)
    args = parser.parse_args(arguments)
    folders: dict[Path, RunFolder] = {}
    for path in args.runs or [Path("runs")]:
        found = find_runs(path)
        if not found:
            why = "" if path.exists() else " (no such folder)"
            parser.error(f"no runs in {path.resolve()}{why}; to make one: {EXAMPLE}")
        folders.update({folder.path.resolve(): folder for folder in found})
    runs = load_runs(folders.values())
    try:
        write_report(runs, args.output)
    except OSError as error:
        parser.error(f"cannot write to {args.output}: {error.strerror}")
    console = Console(markup=False, highlight=False, emoji=False)
    console.width = max(console.width, 100) if console.is_terminal else 200
    print_table(runs.table, console)
    for name in ("report.html", "tables/runs.csv"):
        console.print(args.output / name, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
