"""The user's own files: FILE.py:NAME as a model, data set or loss, FILE.py as a strategy.

An Experiment names them relative to its `folder`, which nodes see read-only. Nothing of it is
ever imported on the host: a file is read and parsed there, so that most mistakes are found before
nodes start, and nodes import it (workloads/own). Standard library only.
"""

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cluster.spec.errors import SpecError, did_you_mean

SUFFIX = ".py"
EXCHANGE, MESSAGES = "exchange", "messages"
"""Functions of a strategy's file: the first must be there."""
NAMED = ("model", "dataset", "loss")
"""Options that take FILE.py:NAME."""
OPTIONS = ("strategy", *NAMED)
SHA256_DIGITS = 16
MOST_BYTES = 10_000_000
"""Of a file of source text."""


@dataclass(frozen=True)
class Own:
    """What an option's value names."""

    file: str
    name: str
    """A class or function at the top level of the file; of a strategy, `exchange`."""


LIBRARIES = {"torchvision": "torchvision", "hf": "transformers"}
"""Begin of a model's or data set's name -> the package that nodes need for it."""
LIBRARY_FORMS = {
    "model": ("torchvision:NAME", "hf:FOLDER"),
    "dataset": ("torchvision:NAME",),
}


def package_of(value: object) -> str | None:
    """The package that has the model or data set of this name; None where it is in none."""
    begin, colon, name = str(value).partition(":")
    return LIBRARIES.get(begin) if colon and name else None


def is_foreign(value: object) -> bool:
    """Whether a model or data set is none of ours: in a file of the user's, or in a package."""
    return is_own(value) or package_of(value) is not None


def pretrained_folder(model: object) -> str | None:
    """Of hf:FOLDER, the folder."""
    begin, _, folder = str(model).partition(":")
    return folder if begin == "hf" and folder else None


def is_own(value: object) -> bool:
    """Whether an option's value names a file, and is no built-in's name."""
    return isinstance(value, str) and value.partition(":")[0].endswith(SUFFIX)


def parse(option: str, value: str) -> Own:
    """SpecError where a value names a file in another form than its option takes."""
    file, colon, name = value.partition(":")
    if option == "strategy":
        if colon:
            raise SpecError(
                f"strategy {value!r}: give the file alone, {file}, whose function {EXCHANGE} is"
                " the strategy"
            )
        return Own(file, EXCHANGE)
    if not name.isidentifier():
        raise SpecError(
            f"{option} {value!r}: give the file and a class or function in it, {file}:NAME"
        )
    return Own(file, name)


def check_source(option: str, own: Own, path: Path) -> bytes:
    """The text of a file that parses and has the name; SpecError, with the line, for another."""
    shown = f"{option} {own.file}"
    try:
        if not path.is_file():
            problem = "is a folder" if path.is_dir() else "does not exist"
            raise SpecError(f"{shown}: {path} {problem}")
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{shown} cannot be read: {error.strerror}") from None
    if len(text) > MOST_BYTES:
        raise SpecError(f"{shown} has more than {MOST_BYTES:,} bytes")
    try:
        names = top_level_names(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        raise SpecError(f"{shown}{line}: {type(error).__name__}: {what}") from None
    if names is not None and own.name not in names:
        raise SpecError(_missing(option, own, names))
    return text


def _missing(option: str, own: Own, names: Iterable[str]) -> str:
    if option == "strategy":
        return (
            f"strategy {own.file} has no function {EXCHANGE}(tensor, round), which is what a"
            f" strategy is{did_you_mean(EXCHANGE, names)}"
        )
    there = ", ".join(names) or "nothing"
    hint = did_you_mean(own.name, names)
    return f"{option} {own.file}:{own.name}: the file has no {own.name}; it has: {there}{hint}"


def top_level_names(module: ast.Module) -> list[str] | None:
    """What a module defines, imports or assigns at its top level; None for `from x import *`."""
    found: dict[str, None] = {}
    for node in _top_level(module.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = None
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if any(alias.name == "*" for alias in node.names):
                return None
            found |= {(a.asname or a.name).partition(".")[0]: None for a in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (n for target in targets for n in ast.walk(target))
            found |= {n.id: None for n in names if isinstance(n, ast.Name)}
    return list(found)


def _top_level(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """Statements outside of functions and classes, those inside of `if` and `try` too."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
                yield from _top_level(getattr(node, part, ()))
        for handler in getattr(node, "handlers", ()):
            yield from _top_level(handler.body)


def digest(texts: Iterable[bytes]) -> str:
    """Of the files of a run, in the order of OPTIONS: two runs with other code are not alike."""
    whole = hashlib.sha256()
    for text in texts:
        whole.update(hashlib.sha256(text).digest())
    return whole.hexdigest()[:SHA256_DIGITS]


def files_of(values: dict[str, object]) -> dict[str, str]:
    """Option -> file, of the options that name one, in the order of OPTIONS."""
    return {
        option: str(values[option]).partition(":")[0]
        for option in OPTIONS
        if is_own(values.get(option))
    }


def as_typed(values: dict[str, object]) -> dict[str, object]:
    """The options of a run with whole paths in place of names in its folder."""
    folder = str(values.get("folder"))
    files = {} if values.get("program") else files_of(values)
    whole = {option: f"{folder}/{values[option]}" for option in files}
    if pretrained := pretrained_folder(values.get("model")):
        whole["model"] = f"hf:{folder}/{pretrained}"
    return {**values, **whole}
