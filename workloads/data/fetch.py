"""Fetch a data set's files into the cache.

Whatever a file's source, its sha256 is checked before it is moved in place.
"""

import fcntl
import gzip
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from workloads.data.dataset import (
    MISSING,
    DataError,
    DataFile,
    Dataset,
    Say,
    problem,
    problems,
    to_stderr,
)
from workloads.data.folders import locate
from workloads.data.sources import SOURCE_ERRORS, Source, from_folder, reason, sources


def fetch(
    dataset: Dataset, root: Path, *, source: Path | None = None, say: Say = to_stderr
) -> Path:
    """Fetch missing files into <root>/<name>, from the data set's sources or a folder `source`.

    Safe to call from several processes at once.
    """
    folder, wrong = locate(dataset, root)
    if not wrong:
        return folder
    folder = root.expanduser().absolute() / dataset.name
    try:
        with locked(folder, say):
            # Another process may have fetched everything meanwhile.
            if wrong := problems(dataset, folder):
                _fetch_into(folder, dataset, source, wrong, say)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be written ({error.strerror or error}): "
            f"set GRADWIRE_DATA_DIR to a folder that you can write to"
        ) from error
    return folder


@contextmanager
def locked(folder: Path, say: Say) -> Iterator[None]:
    """Create a folder and hold its lock; what a killed fetch has left there is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{folder.name}: another process is fetching it, waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for abandoned in folder.glob(".fetch-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        yield


def _fetch_into(
    folder: Path, dataset: Dataset, source: Path | None, wrong: dict[DataFile, str], say: Say
) -> None:
    for file, what in wrong.items():
        if what != MISSING:
            say(f"{dataset.name}: {file.name} {what}, fetching it again")
    lacking = list(wrong)
    total_bytes = sum(file.size_bytes for file in lacking)
    say(f"{dataset.name}: fetching {len(lacking)} files, {total_bytes / 1e6:.0f} MB, into {folder}")
    started, failures = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
        scratch = Path(temporary)
        candidates: Iterable[Source] = sources(dataset, lacking, scratch, say)
        if source is not None:
            candidates = [(str(source), partial(from_folder, source))]
        for label, deliver in candidates:
            try:
                for file, path in deliver(tuple(lacking)):
                    _move_checked(file, path, scratch, folder)
                    lacking.remove(file)
            except SOURCE_ERRORS as error:
                failures.append(f"{label}: {reason(error)}")
            if not lacking:
                say(f"{dataset.name}: fetched from {label} in {time.monotonic() - started:.1f} s")
                return
    raise DataError(
        f"{folder / lacking[0].name} {wrong[lacking[0]]}, expected sha256 {lacking[0].sha256}, "
        f"and could not be fetched ({'; '.join(failures)}): "
        f"name a folder that has the files with --data-dir, or connect to a network"
    )


def _move_checked(file: DataFile, path: Path, scratch: Path, folder: Path) -> None:
    """Unpack a delivered file, check it, and move it into the folder."""
    checked = scratch / "checked"
    checked.mkdir(exist_ok=True)
    target = checked / file.name
    if path.suffix == ".gz":
        with gzip.open(path) as content:
            target.write_bytes(content.read(file.size_bytes + 1))
    elif path.is_relative_to(scratch):
        os.replace(path, target)
    else:
        shutil.copyfile(path, target)
    if what := problem(checked, file):
        raise OSError(f"{file.name} {what}, expected sha256 {file.sha256}")
    target.chmod(0o644)  # nodes run as another user
    os.replace(target, folder / file.name)
