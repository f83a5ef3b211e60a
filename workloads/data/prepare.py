"""Data sets on disk: which files, where from, and whether they are right.

    python -m workloads.data fetch cifar10   # once, into the cache; also done by the first run
    python -m workloads.data status          # what is there

Runs on the host before the nodes start, with the standard library only. Whatever a file's source,
its sha256 is checked before it is moved in place, and again at every start: 55 MB take 0.05 s, so
no verdict is remembered. Reading the files for training is in readers.py.
"""

import argparse
import gzip
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cluster.spec.command_line import Parser
from workloads.data.datasets import (
    FILES,
    WEIGHTS,
    DataError,
    Dataset,
    Say,
    count_missing,
    default_data_dir,
    locate,
    places,
    shared_folders,
    to_stderr,
)
from workloads.data.fetch import fetch


def prepare(dataset: Dataset, data_dir: Path | str | None = None, *, say: Say = to_stderr) -> Path:
    """The folder that holds all files of a data set, each verified.

    Without `data_dir` whatever is lacking is fetched into the cache. A folder that a person named
    is only read: what is missing or corrupt there is an error. Files that are there only as .gz are
    unpacked into the cache, because such a folder is often shared and read-only.
    """
    if data_dir is None:
        return shared(dataset) or fetch(dataset, default_data_dir(), say=say)
    root = Path(data_dir).expanduser().absolute()
    folder, wrong = locate(dataset, root)
    if not wrong:
        return folder
    if count_missing(wrong) == len(wrong):
        for packed in places(dataset, root):
            if all((packed / f"{file.name}.gz").is_file() for file in dataset.files):
                _check_packed(dataset, packed)
                say(f"{dataset.name}: {packed} has it packed, using {default_data_dir()}")
                local = replace(
                    dataset,
                    mirrors=(f"{packed.as_uri()}/",),
                    packed=".gz",
                    archives=(),
                    packages=(),
                )
                return fetch(local, default_data_dir(), say=say)
    file, what = next(iter(wrong.items()))
    raise DataError(
        f"{folder / file.name} {what}, expected sha256 {file.sha256}: "
        f"put the right file there, or leave out --data-dir to have it fetched"
    )


def _check_packed(dataset: Dataset, folder: Path) -> None:
    """Also where the cache has the right files: a person who names a folder means what is in it."""
    for file in dataset.files:
        path = folder / f"{file.name}.gz"
        try:
            with gzip.open(path) as content:
                found = hashlib.file_digest(content, "sha256").hexdigest()
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path} cannot be unpacked: {error}") from error
        if found != file.sha256:
            raise DataError(
                f"{path} holds a file with sha256 {found}, expected {file.sha256}: put the right file there, or"
                " leave out --data-dir to have it fetched"
            )


def shared(dataset: Dataset) -> Path | None:
    """Where somebody keeps it for everybody, right and whole."""
    for root in shared_folders():
        folder, wrong = locate(dataset, root)
        if not wrong:
            return folder
    return None


def prepare_all(
    names: Sequence[str], data_dir: Path | str | None = None, *, say: Say = to_stderr
) -> Path:
    """One folder for the nodes: a set's own, or one that holds several by name (`folder_of` finds them).

    Where they lie in different places, they are copied into the cache, beside each other. Weights are
    looked for in a person's folder too, but need not be there.
    """
    folders = {}
    for name in dict.fromkeys(names):
        own = data_dir
        if name in WEIGHTS and data_dir is not None and locate(FILES[name], Path(data_dir))[1]:
            own = None
        folders[name] = prepare(FILES[name], own, say=say)
    if len(folders) == 1:
        return next(iter(folders.values()))
    roots = {folder.parent for name, folder in folders.items() if folder.name == name}
    if len(roots) == 1 and all(folder.name == name for name, folder in folders.items()):
        return roots.pop()
    cache = default_data_dir().expanduser().absolute()
    for name, folder in folders.items():
        if folder != cache / name:
            addresses = (f"{folder.as_uri()}/",)
            local = replace(FILES[name], mirrors=addresses, packed="", archives=(), packages=())
            fetch(local, cache, say=say)
    return cache


def _parser() -> Parser:
    parser = Parser(
        prog="python -m workloads.data",
        formatter_class=argparse.HelpFormatter,
        description="Fetch and check the data sets that gradwire trains on.",
        epilog="Files live in $GRADWIRE_DATA_DIR, else $XDG_CACHE_HOME/gradwire, else "
        "~/.cache/gradwire, in a folder named like the data set. Files directly there, or in the "
        "folders that torchvision and the archives use, are accepted too. Folders in "
        "$GRADWIRE_DATA_PATH, with : between them, are looked into before anything is fetched. "
        "Every file is checked by sha256, whatever its source.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="fetch|status")
    fetching = commands.add_parser("fetch", help="bring a data set here, unless it already is")
    fetching.add_argument("dataset", choices=sorted(FILES), help="which one")
    status = commands.add_parser(
        "status", help="which data sets are here, and whether they are right"
    )
    for command in (fetching, status):
        command.add_argument(
            "--data-dir",
            type=Path,
            default=default_data_dir(),
            metavar="DIR",
            help="default: %(default)s",
        )
    return parser


def status_table(root: Path) -> str:
    rows = [("data set", "files", "size", "where")]
    for dataset in FILES.values():
        folder, wrong = locate(dataset, shared(dataset) or root)
        missing = count_missing(wrong)
        counts = {
            "ok": len(dataset.files) - len(wrong),
            "missing": missing,
            "corrupt": len(wrong) - missing,
        }
        files = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        right_bytes = sum(file.size_bytes for file in dataset.files if file not in wrong)
        rows.append((dataset.name, files, f"{right_bytes / 1e6:.1f} MB", str(folder)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.command == "status":
            print(status_table(options.data_dir))
        else:
            dataset = FILES[options.dataset]
            print(shared(dataset) or fetch(dataset, options.data_dir))
    except DataError as error:
        to_stderr(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    return 0
