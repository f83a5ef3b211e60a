"""The files that nodes write: made by the host, and linked into one writable folder per node.

All else of a session is read-only for a node. A FIFO, a device or a link that a node puts in place
of a file, or its removal, changes the name in the node's folder; the host opens the file it made.
"""

import contextlib
import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from cluster.engine import EngineUnavailable
from cluster.observe.node_watch import RunFailed
from cluster.spec.documents.node_files import NodeFiles
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment

PREFIX = ".nodes-"
"""The folder of nodes' folders in a session, while a cluster runs; the first run's number ends it.
"""


def remove(folder: Path) -> None:
    """By programs that can remove folders in folders of any depth, or closed to us."""
    command = ["rm", "-rf", "--", str(folder)]
    if subprocess.run(command, stderr=subprocess.DEVNULL).returncode != 0:
        open_up = ["chmod", "-R", "u+rwx", "--", str(folder)]
        subprocess.run(open_up, stderr=subprocess.DEVNULL)
        subprocess.run(command, stderr=subprocess.DEVNULL)


class NodeFolders:
    """The folders of one cluster: a context manager around the cluster's.

    `user_of(rank)` is the user that writes as that node; None where it is the host's own.
    """

    def __init__(
        self, first: RunFolder, names: Sequence[str], user_of: Callable[[int], int | None]
    ) -> None:
        self.folder = first.path.parent / f"{PREFIX}{first.name[:3]}"
        self._names, self._user_of = names, user_of

    def __enter__(self) -> Self:
        self.folder.mkdir()
        for name in self._names:
            (self.folder / name).mkdir()
        trial = self.folder / "trial"
        trial.touch()
        try:
            os.link(trial, self.folder / "link")
        except OSError as error:
            self.__exit__()
            raise EngineUnavailable(
                f"output: {self.folder.parent} is on a file system without hard links"
                f" ({error.strerror}), which nodes write through: choose another --output"
            ) from None
        return self

    def __exit__(self, *exc: object) -> None:
        remove(self.folder)

    @contextlib.contextmanager
    def of_run(self, run: RunFolder, experiment: Experiment) -> Iterator[None]:
        """While a run lasts, its nodes can write its files."""
        made: list[Path] = []
        try:
            for rank, name in enumerate(self._names):
                if name not in experiment.event_writers:
                    continue  # a host that this run leaves idle
                for path, link in self._files(rank, name, run, experiment):
                    made.append(path)
                    self._give(rank, path, link)
                if experiment.program is not None:
                    self._make_work(rank, name)
            yield
        finally:
            for name in self._names:
                self._keep_work(name, run)
                for link in vars(NodeFiles.in_own_folder(self.folder / name)).values():
                    with contextlib.suppress(OSError):
                        os.unlink(link)
            for path in made:
                _take_back(path)

    def _files(
        self, rank: int, name: str, run: RunFolder, experiment: Experiment
    ) -> list[tuple[Path, Path]]:
        """A node's files: in the run folder, and the names that the node has for them."""
        files, links = run.files_of(name), NodeFiles.in_own_folder(self.folder / name)
        kinds = ["events", "log", "heartbeat"]
        if rank == 0:
            kinds.append("model")
        if experiment.save_state:
            kinds.append("state")
        # Horovod's rank 0 writes it, which on Spark may be any node's worker.
        if experiment.timeline and (rank == 0 or experiment.launcher == "spark"):
            kinds.append("timeline")
        return [(getattr(files, kind), getattr(links, kind)) for kind in kinds]

    def _give(self, rank: int, path: Path, link: Path) -> None:
        """Create a file that the node's user can write, if it is not there, and link it."""
        user = self._user_of(rank)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
        if user is not None:
            os.chown(path, user, user)
        try:
            os.link(path, link)
        except OSError as error:
            raise RunFailed(
                f"{link.parent.name} has something of its own at {link}: {error.strerror}"
            ) from None

    def _make_work(self, rank: int, name: str) -> None:
        """A program's working folder, in which its node may do as it likes."""
        work, user = NodeFiles.in_own_folder(self.folder / name).work, self._user_of(rank)
        work.mkdir()
        if user is not None:
            os.chown(work, user, user)

    def _keep_work(self, name: str, run: RunFolder) -> None:
        """What a program left goes to the run folder as it is: nothing of ours opens it."""
        work, kept = NodeFiles.in_own_folder(self.folder / name).work, run.work_of(name)
        with contextlib.suppress(OSError):  # there is none, or something else in its place
            if not work.is_symlink() and any(work.iterdir()):
                kept.parent.mkdir(exist_ok=True)
                work.rename(kept)
                if os.geteuid() == 0:
                    own = f"{os.geteuid()}:{os.getegid()}"
                    subprocess.run(["chown", "-hRP", own, "--", str(kept)], check=False)
            else:
                work.rmdir()


def _take_back(path: Path) -> None:
    """Make the file ours again; one that stayed empty goes, but for events and logs."""
    with contextlib.suppress(OSError):  # the run folder may have been removed meanwhile
        os.chown(path, os.geteuid(), os.getegid())
        os.chmod(path, stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH)
        if path.suffix not in (".jsonl", ".log") and not path.stat().st_size:
            path.unlink()
