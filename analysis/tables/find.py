"""The runs that a command line names."""

from collections.abc import Sequence
from pathlib import Path

from cluster.spec.command_line import Parser, argument, parse_path
from cluster.spec.documents.run_folder import RunFolder, find_runs

EXAMPLE = "./measure.sh --workers 6 --passes 2"


def add_runs(parser: Parser) -> None:
    """The argument RUNS."""
    where = "runs, sessions or folders of sessions (default: runs)"
    path = argument(parse_path)
    parser.add_argument(
        "runs", nargs="*", type=path, metavar="RUNS", default=[Path("runs")], help=where
    )


def find_all(parser: Parser, paths: Sequence[Path]) -> list[RunFolder]:
    """Every run below these folders, once; a folder without runs ends the program."""
    folders: dict[Path, RunFolder] = {}
    for path in paths:
        found = find_runs(path)
        if not found:
            why = " (that is a file)" if path.is_file() else ""
            why = why if path.exists() else " (no such folder)"
            where = f"{path.resolve()}{why}"
            parser.refuse(f"no runs in {where}; to make one: {EXAMPLE}")
        folders.update({folder.path.resolve(): folder for folder in found})
    return list(folders.values())
