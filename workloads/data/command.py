"""The command line of the data sets: python3 -m workloads.data fetch NAME ... | status"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from cluster.spec.command_line import Parser, argument, parse_path
from workloads.data.dataset import DataError, count_missing, to_stderr
from workloads.data.fetch import fetch
from workloads.data.folders import default_data_dir, find_complete, locate
from workloads.data.prepare import FILES, encode_text


def _parser() -> Parser:
    parser = Parser(
        prog="python3 -m workloads.data",
        formatter_class=argparse.HelpFormatter,
        description="Fetch and check the data sets and pretrained weights that gradwire uses.",
        epilog="The cache is $GRADWIRE_DATA_DIR, else $XDG_CACHE_HOME/gradwire, else "
        "~/.cache/gradwire; each data set has a folder of its name there. Files directly in the "
        "cache, or in the folders of torchvision and of the original archives, are accepted too. "
        "Folders in $GRADWIRE_DATA_PATH, separated by :, are searched before anything is fetched. "
        "The sha256 of every file is checked, whatever its source.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="fetch|status")
    fetching = commands.add_parser("fetch", help="fetch data sets that are not here yet")
    fetching.add_argument(
        "names",
        nargs="+",
        choices=sorted(FILES),
        metavar="NAME",
        help=f"{', '.join(sorted(FILES))}; text together with weights is encoded for the nodes",
    )
    status = commands.add_parser("status", help="list data sets with missing and corrupt files")
    for command in (fetching, status):
        command.add_argument(
            "--data-dir",
            type=argument(parse_path),
            default=default_data_dir(),
            metavar="DIR",
            help="default: %(default)s",
        )
    return parser


def status_table(root: Path) -> str:
    rows = [("data set", "files", "size", "where")]
    for dataset in FILES.values():
        folder, wrong = locate(dataset, find_complete(dataset) or root)
        missing = count_missing(wrong)
        counts = {
            "ok": len(dataset.files) - len(wrong),
            "missing": missing,
            "corrupt": len(wrong) - missing,
        }
        files = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        intact_bytes = sum(file.size_bytes for file in dataset.files if file not in wrong)
        rows.append((dataset.name, files, f"{intact_bytes / 1e6:.1f} MB", str(folder)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    root = options.data_dir.absolute()
    try:
        if options.command == "status":
            print(status_table(root))
        else:
            found = {
                name: find_complete(FILES[name]) or fetch(FILES[name], root)
                for name in options.names
            }
            for folder in encode_text(found, root, to_stderr).values():
                print(folder)
    except DataError as error:
        to_stderr(str(error))
        return 2
    return 0
