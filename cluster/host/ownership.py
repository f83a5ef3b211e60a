"""What a measure owns: written down before it is made, so that a later measure can remove it.

A measure that is killed cannot clean up. Each one has a folder among the temporary files, named
after its process, with a record of what it has made elsewhere; every process that it starts
carries the same name in its environment. cluster/host/leftovers.py removes what ended owners
have left.
"""

import atexit
import contextlib
import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from cluster.engine import EngineUnavailable

VARIABLE = "GRADWIRE_OWNER"
"""Environment variable with the owner of a process."""
PREFIX = "gradwire-"
RECORD = "record.jsonl"


class Kind(StrEnum):
    """What can be on record."""

    CONTROL_GROUP = "control group"
    CONTAINERS = "containers"
    """A Compose project; its containers and networks have the owner as a label."""
    IMAGE = "image"
    """In use, hence to be kept as long as the owner lives."""
    SESSION = "session"


@dataclass(frozen=True)
class Owner:
    """A process, so that no other one is taken for it, on whatever machine it runs."""

    process: int
    started: str
    """In clock ticks since boot; empty where there is no /proc."""
    namespace: str
    """Where the process number is valid."""
    boot: str
    machine: str
    """Empty where the machine cannot be told from others."""

    def __str__(self) -> str:
        fields = (self.process, self.started, self.namespace, self.boot, self.machine)
        return "-".join(map(str, fields))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        process, *fields = text.split("-")
        if not process.isdecimal() or len(fields) != 4:
            return None
        return cls(int(process), *fields)

    @classmethod
    def current(cls) -> Self:
        """The owner that this process is."""
        return cls(os.getpid(), _start_time(os.getpid()), *_place())

    def has_ended(self) -> bool:
        """False also where this process cannot know: a process of another machine."""
        namespace, boot, machine = _place()
        if not machine or self.machine != machine:
            return False
        if self.boot != boot:
            return True  # the machine was restarted since
        return self.namespace == namespace and _start_time(self.process) != self.started


def _start_time(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


@functools.cache
def _place() -> tuple[str, str, str]:
    """The namespace of process numbers, the boot and the machine; empty where there is no /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().partition("-")[0]
        namespace = str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "", "", ""
    try:
        machine = Path("/etc/machine-id").read_text()
    except OSError:
        machine = boot
    digest = hashlib.sha256(f"{platform.node()} {machine}".encode())
    return namespace, boot, digest.hexdigest()[:8]


def scratch_folder() -> Path:
    """This process's folder for temporary files and its record; removed when it ends."""
    try:
        folder = Path(tempfile.gettempdir(), f"{PREFIX}{Owner.current()}")
        if not _is_ours(folder):
            folder.mkdir(mode=0o700)
            atexit.register(_remove, folder, os.getpid())
    except OSError as error:
        raise EngineUnavailable(
            f"no folder for temporary files can be written: {error}; set TMPDIR to one"
        ) from error
    return folder


def _remove(folder: Path, process: int) -> None:
    if process == os.getpid():  # not a fork of it
        shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Whether a folder exists and is this user's: others may write among temporary files too."""
    try:
        return not folder.is_symlink() and folder.stat().st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def record(kind: Kind, name: str) -> None:
    """Write down what this process is about to make or use."""
    with (scratch_folder() / RECORD).open("a", encoding="utf-8") as file:
        file.write(json.dumps([kind, name]) + "\n")


@dataclass(frozen=True)
class Belongings:
    """An owner and what it has on record."""

    owner: Owner
    folder: Path
    entries: tuple[tuple[str, str], ...]

    def of(self, kind: Kind) -> list[str]:
        return [name for recorded, name in self.entries if recorded == kind]


def all_belongings() -> Iterator[Belongings]:
    """Those of all measures of this user that have not removed them."""
    for entry in os.scandir(tempfile.gettempdir()):
        if entry.name.startswith(PREFIX):
            owner = Owner.parse(entry.name.removeprefix(PREFIX))
            folder = Path(entry.path)
            if owner is not None and _is_ours(folder):
                yield Belongings(owner, folder, tuple(_read(folder / RECORD)))


def _read(record: Path) -> Iterator[tuple[str, str]]:
    """All whole lines."""
    with contextlib.suppress(OSError, ValueError):
        for line in record.read_text(encoding="utf-8").splitlines():
            kind, name = json.loads(line)
            yield kind, name


def tied(command: list[str]) -> list[str]:
    """The command as the kernel ends it with the thread that starts it, even if that is killed.

    A starter that was killed before the kernel knew of the tie has left the command to another
    parent: then the command does not begin.
    """
    tie = _tie()
    return [*tie, "sh", "-c", _IF_STARTED_BY, str(os.getpid()), *command] if tie else command


_IF_STARTED_BY = '[ "$PPID" = "$0" ] && exec "$@"'


@functools.cache
def _tie() -> tuple[str, ...]:
    setpriv = shutil.which("setpriv", path=f"{os.environ.get('PATH', '')}:/usr/bin:/bin")
    if setpriv is None:
        return ()
    options = subprocess.run([setpriv, "--help"], capture_output=True, text=True).stdout
    return (setpriv, "--pdeathsig", "KILL", "--") if "--pdeathsig" in options else ()
