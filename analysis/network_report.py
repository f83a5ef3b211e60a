"""The report of all runs: tables in the terminal and as CSV, and one HTML page with all figures.

python3 -m analysis.network_report                      reads runs/, writes report/
python3 -m analysis.network_report runs/SESSION --output FOLDER --target 0.9 --open
python3 -m analysis.network_report --watch              again whenever a run has progressed
"""

from cluster.spec import own_environment

if __name__ == "__main__":
    own_environment.enter("analysis.network_report")  # before anything that needs pandas

import argparse
import contextlib
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from analysis.report.context import Report
from analysis.report.figures import present
from analysis.report.overview.headline import headline
from analysis.report.page import render
from analysis.report.print_tables import print_tables
from analysis.report.sections import make_sections
from analysis.tables.columns import OPTIONS
from analysis.tables.find import add_runs, find_all
from analysis.tables.load import load_runs
from analysis.tables.score import Target, parse_target
from cluster.spec.command_line import Parser, argument, parse_path, run
from cluster.spec.documents.run_folder import RunFolder, write_at_once

WATCH_S = 3


def write_report(report: Report, output: Path, refresh_s: int | None = None) -> list[str]:
    """Names of the files written below `output`; tables of an earlier report are deleted."""
    sections = make_sections(report)
    unused = [option for option in OPTIONS if report.runs.table[option].isna().all()]
    tables = {"runs": report.runs.table.drop(columns=unused)}
    for part in (part for section in sections for part in (section, *section.parts)):
        tables |= {name: table for name, table in part.tables.items() if not table.empty}
    colours = present(report.runs.table["strategy"].dropna())
    page = render(headline(report), sections, colours, refresh_s)
    (output / "tables").mkdir(parents=True, exist_ok=True)
    names = [f"tables/{name}.csv" for name in tables]
    for name, table in zip(names, tables.values(), strict=True):
        write_at_once(output / name, table.to_csv(index=False))
    write_at_once(output / "report.html", page)
    for old in (output / "tables").glob("*.csv"):
        if f"tables/{old.name}" not in names:
            old.unlink()
    return ["report.html", *names]


def _target(text: str) -> Target:
    try:
        return parse_target(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            "must be an accuracy above 0 and up to 1, such as 0.9 or 90%, or of texts bits per"
            f" byte, such as 3.5bits, not {text!r}"
        ) from None


def _parser() -> Parser:
    parser = Parser(
        prog="python3 -m analysis.network_report",
        description="Report of all runs: tables here and as CSV, one HTML page with all figures.",
    )
    add_runs(parser)
    path = argument(parse_path)
    what = "folder for report.html and tables/*.csv (default: report)"
    parser.add_argument("--output", type=path, default="report", metavar="FOLDER", help=what)
    target = "score whose cost is reported: an accuracy, 0.9 or 90%%, or bits per byte of a text,"
    target += " 3.5bits (default: one that half of the runs reach)"
    parser.add_argument("--target", type=_target, metavar="SCORE", help=target)
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    watch = "rewrite it whenever a run has progressed, until Ctrl-C; the page reloads itself"
    parser.add_argument("--watch", action="store_true", help=watch)
    return parser


def _newest(folders: Sequence[RunFolder]) -> tuple[float, ...]:
    """Changes when a run has progressed."""
    files = [path for folder in folders for path in (folder.summary, folder.spec, folder.events(0))]
    found = []
    for path in files:
        with contextlib.suppress(OSError):  # not there, or not ours to see
            found.append(path.stat().st_mtime)
    return tuple(found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    console = Console(markup=False, highlight=False, emoji=False)
    console.width = max(console.width, 100) if console.is_terminal else 200

    def write(folders: Sequence[RunFolder], refresh_s: int | None) -> None:
        report = Report.of(load_runs(folders, live=args.watch), args.target)
        try:
            written = write_report(report, args.output, refresh_s)
        except OSError as error:
            parser.refuse(f"cannot write to {args.output}: {error.strerror}")
        print_tables(report, console)
        for name in written:
            console.print(args.output / name, soft_wrap=True)

    folders = find_all(parser, args.runs)
    seen = _newest(folders)  # before reading: what changes meanwhile is read the next time
    try:
        write(folders, WATCH_S if args.watch else None)
        if args.open:
            webbrowser.open((args.output / "report.html").resolve().as_uri())
        while args.watch:
            time.sleep(WATCH_S)
            folders = find_all(parser, args.runs)
            before, seen = seen, _newest(folders)
            if seen != before:
                write(folders, WATCH_S)
    except KeyboardInterrupt:
        if args.watch:
            write(find_all(parser, args.runs), None)  # the last one does not reload itself
        raise
    return 0


if __name__ == "__main__":
    run(main)
