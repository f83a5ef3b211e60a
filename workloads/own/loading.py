"""Import of the user's own files on a node; their errors in one line, with file and line."""

import importlib.util
import os
import sys
import traceback
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from cluster.spec import own_code
from cluster.spec.experiment import Experiment
from workloads.program.command import packages

PACKAGES = "GRADWIRE_PACKAGES"


class OwnCodeError(Exception):
    """A mistake in the user's own file; the message is one line and names the file."""


def load(spec: Experiment, option: str) -> Any:
    """The class or function that an option of the run names."""
    own = own_code.parse(option, getattr(spec, option))
    found = getattr(module_of(spec, option), own.name, None)
    if not callable(found):
        what = "has no" if found is None else "has something that cannot be called as"
        raise OwnCodeError(f"{own.file} {what} {own.name}, which {option} names")
    return found


def module_of(spec: Experiment, option: str) -> ModuleType:
    """The module of the file that an option names; OwnCodeError where it cannot be imported."""
    assert spec.folder is not None
    return import_file(Path(spec.folder), own_code.parse(option, getattr(spec, option)).file)


def add_packages() -> None:
    """Make the packages of --requirements importable, where there are any."""
    folder = os.environ.get(PACKAGES)
    if folder and folder not in sys.path:
        sys.path.append(folder)


@cache
def import_file(folder: Path, file: str) -> ModuleType:
    """Imported once, as a script is: modules beside it are found first."""
    add_packages()
    path = folder / file
    sys.path[:0] = [str(path.parent), *packages(os.environ)]
    name = f"own_{path.stem}"
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise OwnCodeError(f"{file} cannot be imported: {describe(error, folder)}") from error
    return module


def verify(spec: Experiment) -> None:
    """OwnCodeError where a file is not the one that the run was planned with."""
    if spec.folder is None or spec.code_sha256 is None:
        return
    files = own_code.files_of({option: getattr(spec, option) for option in own_code.OPTIONS})
    try:
        texts = [(Path(spec.folder) / file).read_bytes() for file in files.values()]
    except OSError as error:
        raise OwnCodeError(f"{error.filename} cannot be read: {error.strerror}") from None
    if own_code.digest(texts) != spec.code_sha256:
        names = " or ".join(dict.fromkeys(files.values()))
        raise OwnCodeError(f"{names} has changed since the session began: start a new one")


def describe(error: BaseException, folder: Path | str | None) -> str:
    """`star.py, line 3: NameError: name 'x' is not defined`: the last line of a traceback.

    The place is the innermost one below the user's folder; without one, only the last line.
    """
    if isinstance(error, OwnCodeError):
        return str(error)
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        text += "; packages that nodes lack are added with --requirements FILE"
    place = _place(error, Path(folder)) if folder is not None else None
    return f"{place}: {text}" if place else text


def _place(error: BaseException, folder: Path) -> str | None:
    frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        frames.append((error.filename or "", error.lineno))
    inside = [(Path(name), line) for name, line in frames if Path(name).is_relative_to(folder)]
    if not inside:
        return None
    path, line = inside[-1]
    return f"{path.relative_to(folder)}, line {line}"
