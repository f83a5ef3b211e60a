"""What a namespace node sees, may change and may use up: mounts, user and limits.

The host's file system is read-only. Folders of people and of programs are empty, but for what the
node needs, at the same paths; /tmp and the node's folder are writable. Started as root, a node is a
user of its own, without an account. All by system calls: a process per mount would take seconds.
"""

import ctypes
import errno
import os
import re
import resource
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cluster import PROJECT
from cluster.namespaces.network import check, libc

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC = 1 << 12, 1 << 14
KEPT = {"nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC}
"""Options that a mount keeps when it becomes read-only: the kernel may refuse to drop them."""
INERT = MS_NOSUID | MS_NODEV | MS_NOEXEC
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION_3 = 0x20080522

TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
"""Writable folders of a node's own, in memory."""
HIDDEN = ("/root", "/home", "/run", "/var/run", "/dev/pts")
"""Homes, sockets of services (Docker's among them) and terminals."""
TEMPORARY_BYTES = 64 << 20
FILE_BYTES = 8 << 30
"""The largest file that a node can write; as `fsize` in compose/node.yml."""
OWN_COUNT_SINCE = (5, 14)
"""Linux counts the processes of a user in each user namespace; before, all over the machine."""
SYSTEM = {Path(path) for path in ("/", "/usr", "/etc", "/var", "/dev", "/proc", "/sys", "/opt")}


def make_read_only() -> None:
    """Make every mount of this mount namespace read-only."""
    for line in os.fsdecode(Path("/proc/self/mountinfo").read_bytes()).splitlines():
        fields = line.split(" ")
        path = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        options = sum(KEPT.get(option, 0) for option in fields[5].split(","))
        try:
            mount(None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | options)
        except OSError as error:  # a mount that another hides, or that we may not enter
            if error.errno not in (errno.ENOENT, errno.EINVAL, errno.EACCES):
                raise


@dataclass(frozen=True)
class View:
    """What all nodes of a cluster see alike; found once, before they are forked."""

    hidden: list[str]
    needed: list[str]
    """Folders below hidden ones that nodes see all the same, outer ones first."""

    @classmethod
    def of(cls, *read: str) -> Self:
        """`read` are the session, the data, and the user's own folders."""
        paths = [str(PROJECT), sys.prefix, sys.base_prefix, *sys.path, *read]
        folders = {Path(os.path.abspath(path)) for path in paths if os.path.isdir(path)}
        folders |= {path.resolve() for path in folders}
        hidden = covers(folders)
        needed = [f for f in sorted(folders) if any(f.is_relative_to(h) for h in hidden)]
        return cls([str(path) for path in hidden], [str(path) for path in needed])


def confine(view: View, own_folder: str) -> None:
    """Hide what the node does not need, and make its own folder, below the session, writable."""
    held = {path: os.open(path, os.O_PATH) for path in (*view.needed, own_folder)}
    mount("proc", "/proc", "proc", INERT | MS_RDONLY)
    for folder in view.hidden:
        mode = "1777" if folder in TEMPORARY else "755"
        options = f"mode={mode},size={TEMPORARY_BYTES}"
        mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, options)
    for path in view.needed:
        if not os.path.exists(path):
            os.makedirs(path)
            mount(f"/proc/self/fd/{held[path]}", path, None, MS_BIND | MS_REC)
    mount(f"/proc/self/fd/{held[own_folder]}", own_folder, None, MS_BIND)
    mount(None, own_folder, None, MS_REMOUNT | MS_BIND | INERT)
    for folder in view.hidden:
        if folder not in TEMPORARY:
            mount(None, folder, None, MS_REMOUNT | MS_BIND | MS_RDONLY | INERT)
    for descriptor in held.values():
        os.close(descriptor)
    os.chdir(PROJECT)  # the old one is on the other side of the mounts


def covers(needed: Iterable[Path]) -> list[Path]:
    """Folders to hide: homes and the like, and what others may not enter on the way to `needed`."""
    found = [Path(folder) for folder in (*HIDDEN, *TEMPORARY)]
    found += [Path(os.environ["HOME"])] if os.environ.get("HOME", "").startswith("/") else []
    for path in needed:
        found += [p for p in path.parents if not p.stat().st_mode & stat.S_IXOTH]
    folders = {folder.resolve() for folder in found if folder.is_dir()} - SYSTEM
    return sorted(f for f in folders if not any(f.is_relative_to(o) for o in folders - {f}))


def limit(nodes: int, processes: int, has_own_user: bool) -> None:
    """Bound the files that the node writes, and its processes where they are counted apart."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    version = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if has_own_user:
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    elif version >= OWN_COUNT_SINCE:  # all nodes are one user
        resource.setrlimit(resource.RLIMIT_NPROC, (processes * nodes, processes * nodes))


def drop_privileges(user: int | None) -> None:
    """Become this user, and give up all capabilities for good."""
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        check(libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")  # else /proc/self is root's
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    check(libc.capset(header, nothing), "capset")


def settle(name: str) -> None:
    """What programs look up in the environment: a home, a name, a place for temporary files."""
    os.environ |= {"HOME": "/tmp", "TMPDIR": "/tmp", "USER": name, "LOGNAME": name}
    tempfile.tempdir = None


def mount(
    source: str | None, target: str, kind: str | None, flags: int, data: str | None = None
) -> None:
    texts: Sequence[bytes | None] = [
        None if text is None else os.fsencode(text) for text in (source, target, kind, data)
    ]
    result = libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3])
    check(result, f"mount {target}")
