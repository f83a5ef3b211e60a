"""./measure.sh --clean, and the start of every measure: remove what killed measures left behind."""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from cluster.containers import image
from cluster.containers.projects import client, remove_ended
from cluster.host import cgroups, node_folders
from cluster.host.ownership import VARIABLE, Belongings, Kind, Owner, all_belongings

Say = Callable[[str], None]


def remove_leftovers(say: Say) -> None:
    """Remove what ended owners have on record; takes a millisecond where there is none."""
    for left in all_belongings():
        if left.owner.has_ended() and (removed := list(remove(left))):
            say(
                f"removed what a killed measure, process {left.owner.process}, left behind:"
                f" {', '.join(removed)}"
            )


def clean(say: Say) -> int:
    """--clean: that, containers without a record, and old images. The exit code."""
    removed: list[str] = []

    def note(text: str) -> None:
        removed.append(text)
        say(text)

    remove_leftovers(note)
    try:
        docker = client()
    except Exception:  # not installed, not running, no permission
        say("no Docker engine answers: looked for no containers and images")
    else:
        for project in remove_ended(docker):
            note(f"removed what a killed measure left behind: {project}")
        used = {name for other in all_belongings() for name in other.of(Kind.IMAGE)}
        for name in image.remove_old(docker, used):
            note(f"removed the image {name}: older than a day, and not what this version builds")
    if not removed:
        say("nothing to remove")
    return 0


def remove(left: Belongings) -> Iterator[str]:
    """What was removed, one by one; the record goes last, so that a failure is tried again."""
    for process in _end_processes(left.owner):
        yield f"process {process}"
    for group in map(Path, left.of(Kind.CONTROL_GROUP)):
        if cgroups.remove_leftover(group):
            yield f"control group {group.name}"
    if left.of(Kind.CONTAINERS):
        try:
            docker = client()
        except Exception:  # its engine has ended
            return
        yield from remove_ended(docker)
    for session in map(Path, left.of(Kind.SESSION)):
        yield from _tidy(session, left.owner)
    shutil.rmtree(left.folder, ignore_errors=True)
    yield f"temporary folder {left.folder.name}"


def _end_processes(owner: Owner) -> Iterator[int]:
    """End the processes that an owner has started, by their environment."""
    mark = f"{VARIABLE}={owner}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            descriptor = os.pidfd_open(int(folder.name))
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    yield int(folder.name)
            finally:
                os.close(descriptor)


def _tidy(session: Path, owner: Owner) -> Iterator[str]:
    """Remove nodes' folders and half-written files of a session, and the session if it is empty."""
    for folder in session.glob(f"{node_folders.PREFIX}*"):
        node_folders.remove(folder)
        yield str(folder)
    for file in session.glob(f"**/.*.{owner.process}"):
        with contextlib.suppress(OSError):
            file.unlink()
            yield f"half-written {file}"
    with contextlib.suppress(OSError):
        session.rmdir()
        yield f"empty {session}"
