"""JSON by type hints: frozen dataclasses that write and read themselves. Standard library only.

A field is a number, text, true or false, a list, a dictionary by text or number, a NamedTuple (an
array in JSON), another dataclass, or one of these or null. A wrong value is a DocumentError.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from reprlib import repr as short
from typing import Annotated, Any, Self, TypeVar, Union, cast

SCHEMA = 2
"""Version of all documents. A key may be added to it; a renamed key makes the next version."""

Json = dict[str, Any]
Options = dict[str, int | float | str | bool | None]
"""Settings by name, as they were recorded: another version may have others."""
Reader = Callable[[Any], Any]
T = TypeVar("T")


class DocumentError(ValueError):
    """A value that a document cannot have; the message names its key and is one line."""

    def __init__(self, problem: str, key: str = "") -> None:
        super().__init__(f"{key} {problem}" if key else problem)
        self.problem, self.key = problem, key

    def below(self, key: str) -> DocumentError:
        """The same error, seen from the document that has the part under this key."""
        joint = "." if self.key and not self.key.startswith("[") else ""
        return DocumentError(self.problem, f"{key}{joint}{self.key}")


class OtherSchema(DocumentError):
    """A document of a version that this one does not know."""


@dataclass(frozen=True)
class Range:
    """What a number of a document must lie between."""

    low: float
    high: float = math.inf


LARGEST = 2**63 - 1
"""Of a whole number: what a column of a table can hold."""
LARGEST_NUMBER = 1e50
"""Beyond the largest float32; squares, products and quotients of numbers up to it are finite.
Numbers nearer to 0 than its inverse are read as 0."""
LONGEST_TEXT = 100_000
Count = Annotated[int, Range(0)]
Amount = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]


@typing.dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
@dataclass(frozen=True, kw_only=True)
class Document:
    """A document, or a part of one: subclasses are frozen dataclasses whose fields are its keys.

    Keys of a later version are kept and written again.
    """

    unknown_keys: Json = field(default_factory=dict, init=False, repr=False)

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def to_json(self) -> Json:
        return cast(Json, to_json(self))

    @classmethod
    def from_json(cls, value: object) -> Self:
        return from_json(cls, value)


def parse_json(text: str | bytes) -> Any:
    """NaN and infinity, which JSON does not have, are read as null. Bytes are UTF-8."""
    text = text.decode() if isinstance(text, bytes) else text
    return json.loads(text, parse_constant=lambda _: None)


def to_json(value: object) -> object:
    """What json.dumps takes and from_json reads: a number out of range becomes null."""
    if isinstance(value, int | float):
        return value if abs(value) <= _most(value) else None
    if isinstance(value, str):
        return _printable(value.encode(errors="replace").decode())[:LONGEST_TEXT]
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        written = {name: to_json(getattr(value, name)) for name in hints(kind)}
        return written | value.unknown_keys if isinstance(value, Document) else written
    return value


def from_json(hint: type[T], value: object) -> T:
    """The value as this type; DocumentError where it cannot be."""
    kind: Any = hint
    return cast(T, reader(kind)(value))


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """Key -> type of a dataclass's or a NamedTuple's fields, in order."""
    found = typing.get_type_hints(kind, include_extras=True)
    if not dataclasses.is_dataclass(kind):
        return found
    names = (f.name for f in dataclasses.fields(kind) if f.name != "unknown_keys")
    return {name: found[name] for name in names}


hints: Callable[[Any], dict[str, Any]] = _hints


@functools.cache
def reader(hint: Any) -> Reader:
    """The function that reads a value of this type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return functools.partial(_read_range, reader(arguments[0]), arguments[1])
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in arguments if kind is not types.NoneType]
        read = (
            reader(kinds[0]) if len(kinds) == 1 else functools.partial(_read_scalar, tuple(kinds))
        )
        return lambda value: None if value is None else read(value)
    if origin in (list, tuple):
        return functools.partial(_read_list, reader(arguments[0]), origin)
    if origin is dict:
        return functools.partial(_read_dict, arguments[0], reader(arguments[1]))
    if dataclasses.is_dataclass(hint):
        return functools.partial(_read_dataclass, cast(type, hint), _fields(cast(type, hint)))
    if issubclass(hint, StrEnum):
        return cast(Reader, hint)
    if issubclass(hint, tuple):
        return functools.partial(_read_row, hint, [reader(kind) for kind in hints(hint).values()])
    return functools.partial(_read_scalar, (hint,))


NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _read_scalar(kinds: tuple[type, ...], value: Any) -> Any:
    """True is no number, and a whole number will do for any."""
    kind = type(value)
    if kind not in kinds and not (kind is int and float in kinds):
        wanted = " or ".join(NAMES[kind] for kind in kinds)
        raise DocumentError(f"must be {wanted}, not {short(value)}")
    if kind is str:
        return _read_text(value)
    if not abs(value) <= (most := _most(value)):  # false for NaN, too
        bound = f"at least -{most:g}" if value < 0 else f"at most {most:g}"
        raise DocumentError(f"must be {bound}, not {short(value)}")
    return value if kind is not float or abs(value) * LARGEST_NUMBER >= 1 else 0.0


def _most(number: float) -> float:
    return LARGEST_NUMBER if isinstance(number, float) else LARGEST


def _read_text(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise DocumentError(f"must have at most {LONGEST_TEXT:,} characters, not {len(text):,}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DocumentError(f"must be text that UTF-8 can encode, not {text!a:.60}") from None
    return _printable(text)


CONTROL = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def _printable(text: str) -> str:
    """Without control characters: what a node writes may be printed on a terminal."""
    return text if text.isprintable() else text.translate(CONTROL)


def _read_range(read: Reader, allowed: Range, value: Any) -> Any:
    number = read(value)
    if number < allowed.low:
        raise DocumentError(f"must be at least {allowed.low:g}, not {short(value)}")
    if number > allowed.high:
        raise DocumentError(f"must be at most {allowed.high:g}, not {short(value)}")
    return number


def _read_list(read: Reader, kind: Callable[[list[Any]], Any], value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise DocumentError(f"must be a list, not {short(value)}")
    found = []
    for index, item in enumerate(value):
        try:
            found.append(read(item))
        except DocumentError as error:
            raise error.below(f"[{index}]") from None
    return kind(found)


def _read_dict(key_type: type, read: Reader, value: Any) -> dict[Any, Any]:
    found = {}
    for key, item in _object(value).items():
        try:
            found[key_type(_read_text(key))] = read(item)
        except DocumentError as error:
            raise error.below(ascii(key)[1:-1]) from None
    return found


def _read_row(kind: Callable[..., Any], readers: list[Reader], value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != len(readers):
        raise DocumentError(f"must be a list of {len(readers)}, not {short(value)}")
    return kind(*(read(item) for read, item in zip(readers, value, strict=True)))


def _fields(kind: type) -> dict[str, tuple[Reader, bool]]:
    """Key -> how to read it, and whether it must be there."""
    found = {}
    for f in dataclasses.fields(kind):
        if f.name in hints(kind):
            required = f.default is f.default_factory is dataclasses.MISSING
            found[f.name] = (reader(hints(kind)[f.name]), required)
    return found


def _read_dataclass(kind: type, fields: dict[str, tuple[Reader, bool]], value: Any) -> Any:
    values = {}
    found = _object(value)
    for name, (read, required) in fields.items():
        if name in found:
            try:
                values[name] = read(found[name])
            except DocumentError as error:
                raise error.below(name) from None
        elif required:
            raise DocumentError("is missing", name)
    made = kind(**values)
    if isinstance(made, Document) and len(values) < len(found):
        made.unknown_keys.update((key, found[key]) for key in found.keys() - fields.keys())
    return made


def _object(value: Any) -> Json:
    if not isinstance(value, dict):
        raise DocumentError(f"must be an object, not {short(value)}")
    return value
