"""The user's own files: found and checked on the host, which never runs them.

Their folders are read-only in nodes, at the same paths with every engine.
"""

import os
import shlex
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cluster.host import packages
from cluster.spec import program
from cluster.spec.command_line import parse_path
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment

OF_NODES = (
    *("/", "/app", "/bin", "/boot", "/data", "/dev", "/etc", "/home", "/lib", "/lib64", "/node"),
    *("/opt", "/proc", "/root", "/run", "/sbin", "/session", "/sys", "/tmp", "/usr", "/var"),
    *("/var/run", "/var/tmp", "/dev/shm", "/venv", "/packages"),
)
"""Folders that a node has for itself."""


def locate(options: dict[str, Any]) -> dict[str, Any]:
    """The options of one run with absolute paths of the user's files; SpecError where one is not
    there or nodes cannot read it."""
    located = dict(options)
    if options.get("requirements") is not None:
        located["requirements"] = str(find_file("requirements", options["requirements"]))
        packages.read(Path(located["requirements"]))
    if options.get("program") is not None:
        located |= _locate_program(str(options["program"]), options.get("folder"))
    return located


def _locate_program(command: str, given: str | None) -> dict[str, str]:
    first, *rest = program.words(command)
    if first == "-m":
        folder = find_folder("folder", given or ".")
        _check_module(folder, rest[0])
    else:
        script = find_file("program", first)
        folder = find_folder("folder", given or str(script.parent))
        if not script.is_relative_to(folder):
            raise SpecError(f"folder {folder} does not hold the program {script}")
        first = str(script)
    return {"program": shlex.join([first, *rest]), "folder": str(folder)}


def _check_module(folder: Path, module: str) -> None:
    """An installed package may have it, too: then its first part is not in the folder."""
    top = module.partition(".")[0]
    if (folder / top).is_dir():
        path = folder.joinpath(*module.split("."))
        if not (path / "__main__.py").is_file() and not path.with_suffix(".py").is_file():
            raise SpecError(f"program: {path} is neither a module nor a package with __main__.py")


def find_file(option: str, text: str) -> Path:
    """A file of the user's that nodes can read, as an absolute path."""
    path = _path(option, text)
    if not path.is_file():
        raise SpecError(f"{option} {text}: {'is no file' if path.exists() else 'does not exist'}")
    _check_readable(option, path, stat.S_IROTH)
    return path


def find_folder(option: str, text: str) -> Path:
    """A folder of the user's that nodes can see, as an absolute path."""
    path = _path(option, text)
    if not path.is_dir():
        raise SpecError(f"{option} {text}: {'is no folder' if path.exists() else 'does not exist'}")
    homes = {Path(folder).resolve() for folder in (*OF_NODES, Path.home())}
    if path in homes:
        raise SpecError(
            f"{option} {path} cannot be shown to nodes, which have a {path} of their own: put the"
            " files into a folder of their own"
        )
    _check_readable(option, path, stat.S_IROTH | stat.S_IXOTH)
    return path


def _path(option: str, text: str) -> Path:
    try:
        return parse_path(text).resolve()
    except (ValueError, OSError, RuntimeError) as error:
        raise SpecError(f"{option}: {error}") from None


def _check_readable(option: str, path: Path, needed: int) -> None:
    """As root, nodes are other users; else they are the one who reads this."""
    mode = path.stat().st_mode
    is_closed = mode & needed != needed if os.geteuid() == 0 else not os.access(path, os.R_OK)
    if is_closed:
        raise SpecError(
            f"{option} {path} cannot be read by nodes, which are not root: use 'chmod -R a+rX"
            f" {path}'"
        )


def check_output(experiments: Iterable[Experiment], output: Path) -> None:
    """SpecError where runs would be written into a folder that nodes read."""
    whole = output.resolve()
    for folder in {folder for experiment in experiments for folder in experiment.user_folders}:
        if whole.is_relative_to(folder):
            raise SpecError(
                f"output {output} is inside {folder}, which is the program's and read-only for"
                " nodes: choose an --output outside of it"
            )
