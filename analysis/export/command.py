"""python3 -m analysis.export: runs in the format of another tool."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from analysis.export.exported_run import ExportedRun, read_run
from analysis.export.formats import FORMATS, writer_of
from analysis.tables.find import add_runs, find_all
from cluster.spec.command_line import Parser, argument, parse_path
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.errors import one_line, one_of

PROGRESS_S = 2.0


def _parser() -> Parser:
    formats = [f"  {name:<13}{facts.summary}" for name, facts in FORMATS.items()]
    parser = Parser(
        prog="python3 -m analysis.export",
        description="Write runs in the format of another tool:\n\n" + "\n".join(formats),
        epilog="examples: python3 -m analysis.export --to tensorboard\n"
        "          python3 -m analysis.export runs/SESSION --to perfetto --output traces",
    )
    add_runs(parser)
    to = argument(_known_format)
    parser.add_argument("--to", required=True, type=to, metavar="FORMAT", help="see above")
    where = "a new or empty folder (default: export/FORMAT)"
    parser.add_argument("--output", type=argument(parse_path), metavar="FOLDER", help=where)
    return parser


def _known_format(name: str) -> str:
    one_of("format", name, FORMATS)
    return name


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    chosen = FORMATS[args.to]
    output: Path = args.output or Path("export", args.to)
    folders = find_all(parser, args.runs)
    if missing := chosen.missing():
        packages = " and ".join(missing)
        way_out = "to install what exports need: bash cluster/environment.sh export"
        parser.refuse(f"--to {args.to} needs {packages}; {way_out}")
    exported: list[RunFolder] = []
    try:
        if output.exists() and any(output.iterdir()):
            way_out = "delete it, or give another folder with --output"
            parser.refuse(f"{output} is not empty; {way_out}")
        writer_of(args.to)(_read_all(folders, exported), output)
    except OSError as error:
        parser.refuse(f"cannot write to {output}: {error.strerror}")
    opened_with = chosen.opened_with.format(output=output)
    print(f"{len(exported)} of {len(folders)} runs in {output}; to open: {opened_with}")
    return 0 if exported else 1


def _read_all(folders: Sequence[RunFolder], exported: list[RunFolder]) -> Iterator[ExportedRun]:
    """One at a time. Who is left out is told with the reason, and how far it is every 2 s."""
    told_s = time.monotonic()
    for number, folder in enumerate(folders):
        if time.monotonic() - told_s > PROGRESS_S:
            told_s = time.monotonic()
            print(f"{number} of {len(folders)} runs", file=sys.stderr)
        try:
            run = read_run(folder)
        except (OSError, ValueError, RecursionError) as error:
            print(one_line(f"left out: {folder.path}: {error}"), file=sys.stderr)
            continue
        exported.append(folder)
        yield run
