"""A file with runs (TOML), read and checked: a mistake is told with its line and key."""

import dataclasses
import functools
import tomllib
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short
from typing import Any

from cluster.spec.catalogue import WORKLOADS
from cluster.spec.documents.codec import NAMES
from cluster.spec.errors import FileError, SpecError, one_of, unknown
from cluster.spec.experiment import Experiment
from cluster.spec.experiment_checks import check_value
from cluster.sweep.key_lines import KeyPath, key_lines

Options = dict[str, Any]
"""Option -> its value, or a list of values."""

KEYS = ("title", "memory_may_end", "quick", "runs")
MOST_BYTES = 1_000_000
MORE_OPTIONS = {"workload": str, "global_batch_size": int, "repeat": int}
"""Options of a sweep that are none of one run."""
NUMBER_TOO: dict[str, tuple[type, ...]] = {"dilation": (int, float)}
"""Options that are text or a number."""
FIELDS = {
    f.name: f for f in dataclasses.fields(Experiment) if f.metadata["group"] and f.name != "engine"
}
"""What a sweep can vary."""


@dataclass(frozen=True)
class PresetRun:
    """Options of a sweep, and what its quick variant has instead; None leaves it out of that."""

    options: Options
    quick: Options | None
    origin: str
    """File and line."""


@dataclass(frozen=True)
class Preset:
    title: str
    runs: list[PresetRun]
    quick: Options
    """Options that the quick variant has in all runs."""
    has_quick: bool
    memory_may_end: bool = False
    """A run that runs out of memory is one of the answers, not a failure."""


def read_preset(path: Path, name: str) -> Preset:
    """FileError for what is no preset; `name` is what messages call it."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1).decode()
        if len(text) > MOST_BYTES:
            raise FileError(f"{name} has more than {MOST_BYTES:,} bytes")
        document = tomllib.loads(text)
    except OSError as error:
        raise FileError(f"{name} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, SpecError):
            raise
        raise FileError(f"{name} is no TOML file: {error}") from None
    return _Reader(name, key_lines(text)).preset(document)


@functools.cache
def _hints() -> dict[str, Any]:
    return typing.get_type_hints(Experiment)


def option_type(name: str) -> type:
    """Of an option that is given: int, float, str or bool."""
    hint = MORE_OPTIONS.get(name) or _hints()[name]
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    assert isinstance(hint, type)
    return hint


@dataclass(frozen=True)
class _Reader:
    name: str
    lines: dict[KeyPath, int]

    def preset(self, document: Options) -> Preset:
        for key in document:
            if key not in KEYS:
                self._refuse((key,), unknown("key", key, KEYS))
        title, runs = document.get("title", Path(self.name).stem), document.get("runs")
        if not isinstance(title, str):
            self._refuse(("title",), f"title must be text, not {short(title)}")
        if not isinstance(runs, list) or not runs:
            self._refuse(("runs",), "runs must be a list of tables, [[runs]], and is missing")
        memory_may_end = document.get("memory_may_end", False)
        if not isinstance(memory_may_end, bool):
            given = short(memory_may_end)
            self._refuse(("memory_may_end",), f"memory_may_end must be true or false, not {given}")
        quick = self._options(("quick",), document.get("quick", {}))
        found = [self._run(("runs", k), run) for k, run in enumerate(runs)]
        has_quick = bool(quick) or any("quick" in run for run in runs)
        return Preset(title, found, quick, has_quick, memory_may_end)

    def _run(self, path: KeyPath, run: Any) -> PresetRun:
        if not isinstance(run, dict):
            self._refuse(path, f"runs[{path[-1]}] must be a table of options, not {short(run)}")
        options = {key: value for key, value in run.items() if key != "quick"}
        quick = run.get("quick", {})
        return PresetRun(
            self._options(path, options),
            None if quick is False else self._options((*path, "quick"), quick),
            self._place(path),
        )

    def _options(self, path: KeyPath, options: Any) -> Options:
        if not isinstance(options, dict):
            self._refuse(path, f"{path[-1]} must be a table of options, not {short(options)}")
        for key, value in options.items():
            if key not in FIELDS and key not in MORE_OPTIONS:
                self._refuse((*path, key), unknown("option", key, [*FIELDS, *MORE_OPTIONS]))
            for item in value if isinstance(value, list) else [value]:
                try:
                    _check(key, item)
                except SpecError as error:
                    self._refuse((*path, key), str(error))
        return dict(options)

    def _refuse(self, path: KeyPath, problem: str) -> typing.NoReturn:
        raise FileError(f"{self._place(path)}: {problem}")

    def _place(self, path: KeyPath) -> str:
        """The file, and the line of the key or of the nearest table that it is in."""
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.name}, line {self.lines[path]}" if path else self.name


def _check(name: str, value: object) -> None:
    """SpecError where an option does not take this value."""
    kind = option_type(name)
    if type(value) not in (kind, *((int,) if kind is float else NUMBER_TOO.get(name, ()))):
        raise SpecError(f"{name} must be {NAMES[kind]}, not {short(value)}")
    if name in FIELDS:
        check_value(FIELDS[name], value)
    elif name == "workload":
        one_of(name, str(value), WORKLOADS)
