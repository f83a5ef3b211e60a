"""Where data sets are stored: the cache, shared folders, and the layouts of other programs."""

import os
from pathlib import Path

from workloads.data.dataset import MISSING, DataFile, Dataset, count_missing, problems


def default_data_dir() -> Path:
    """The cache: $GRADWIRE_DATA_DIR, else $XDG_CACHE_HOME/gradwire, else ~/.cache/gradwire."""
    if given := os.environ.get("GRADWIRE_DATA_DIR"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradwire"


def shared_folders() -> list[Path]:
    """Read-only folders with data sets for all users of a machine: $GRADWIRE_DATA_PATH."""
    given = os.environ.get("GRADWIRE_DATA_PATH", "").split(os.pathsep)
    return [Path(folder).expanduser() for folder in given if folder]


def places(dataset: Dataset, root: Path) -> list[Path]:
    """Folders below `root` in which the files may be: NAME, `root` itself, another program's."""
    return [root / place for place in (dataset.name, "", dataset.usual_folder)]


def folder_of(dataset: Dataset, root: Path) -> Path:
    """The folder of a verified data set below `root`, which holds it alone or beside others."""
    first = dataset.files[0].name
    return next((place for place in places(dataset, root) if (place / first).is_file()), root)


def locate(dataset: Dataset, root: Path) -> tuple[Path, dict[DataFile, str]]:
    """The folder below `root` that holds most of the data set, and what is wrong there."""
    root = root.expanduser().absolute()
    best, wrong = root / dataset.name, dict.fromkeys(dataset.files, MISSING)
    for folder in places(dataset, root):
        here = problems(dataset, folder)
        if not here:
            return folder, here
        if count_missing(here) < count_missing(wrong):
            best, wrong = folder, here
    return best, wrong


def find_complete(dataset: Dataset, *roots: Path) -> Path | None:
    """The first folder below these roots, then the shared ones, with all files, each verified."""
    for root in (*roots, *shared_folders()):
        folder, wrong = locate(dataset, root)
        if not wrong:
            return folder
    return None
