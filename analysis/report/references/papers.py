"""Published tables and lab sheets (analysis/published/*.toml), and which runs they mean."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.tables.configurations import mean_of
from cluster.observe.units import bytes_text
from cluster.spec.documents.codec import Document, DocumentError, Options
from cluster.spec.links import NONE

FOLDER = Path(__file__).resolve().parents[2] / "published"


class PaperColumn(Document):
    heading: str
    ours: str
    """The column of our runs."""
    digits: int = 2
    unit: str = ""
    """B and B/s stand for a unit that fits the value, with so many digits in all."""
    scale: float = 1.0
    """Of ours, to the paper's unit."""
    of_first: bool = False
    """In percent of the first row: derived from another column."""

    def mean(self, runs: pd.DataFrame, ours: str | None = None) -> float | None:
        """Of our runs, in the paper's unit; `ours`: of another column of theirs."""
        mean = mean_of(runs[ours or self.ours])
        return None if mean is None else mean * self.scale

    @property
    def is_time(self) -> bool:
        """Or a ratio or rate of times."""
        return self.ours.endswith(("_s", "speed_up"))

    @property
    def text(self) -> Callable[[float], str]:
        if self.unit in ("B", "B/s"):
            return lambda value: bytes_text(value, self.digits) + self.unit[1:]
        return f"{{:.{self.digits}f}}".format


class PaperRow(Document):
    label: str
    match: Options
    """Options of the runs it stands for."""
    values: list[float] = field(default_factory=list)
    """By column; empty in a lab sheet's form."""
    runs: list[float] = field(default_factory=list)
    """Of the first column, the published values run by run."""
    cells: list[str] = field(default_factory=list)
    """The paper's name of the row, in as many columns as it uses; empty: the label."""
    ours: str | None = None
    """The column of our runs, where it is not its column's."""


class PaperTable(Document):
    title: str
    columns: list[PaperColumn]
    rows: list[PaperRow] = field(default_factory=list)
    """A form without rows has numbers of workers down and batch sizes across."""
    by: str = "batch_size"
    """What is across in a form without rows: or global_batch_size, of all workers."""
    match: Options = field(default_factory=dict)
    why: str = ""
    """Why ours may differ."""
    heads: list[str] = field(default_factory=lambda: [""])
    activity: bool = False
    """Its first column is a sum of cumulative counters."""
    across: bool = False
    """The paper's rows are side by side."""
    bars: bool = False
    """Also drawn as bars: bytes sent, with the accuracy on each."""

    @property
    def is_form(self) -> bool:
        """Published without values, to be filled in with our runs."""
        return not any(row.values for row in self.rows)


class Paper(Document):
    title: str
    authors: str
    preset: str
    given: Options
    """Options of all of its runs."""
    tables: list[PaperTable]
    about: str = ""
    """How its forms are filled in."""


@dataclass(frozen=True)
class Preset:
    """The preset of a session."""

    name: str
    is_quick: bool = False


NO_PRESET = Preset("")


def preset_of(command: Sequence[str]) -> Preset:
    """The preset that a command of ./measure.sh names."""
    for word, after in pairwise([*command, ""]):
        if word == "--preset" or word.startswith("--preset="):
            return Preset(word.partition("=")[2] or after, "--quick" in command)
    return NO_PRESET


def papers() -> list[Paper]:
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        try:
            found.append(Paper.from_json(tomllib.loads(path.read_text("utf-8"))))
        except DocumentError as error:
            raise DocumentError(f"{path.name}: {error}") from None
    return found


def matching(runs: pd.DataFrame, wanted: Options) -> pd.DataFrame:
    """A text that ends in * matches the beginning of a name; a|b matches a and b; none no value."""
    return runs.loc[matching_numbers(runs, wanted)]


def matching_numbers(runs: pd.DataFrame, wanted: Options) -> list[int]:
    """Of the matching runs. Rows of so wide a table take long to copy: none is copied here."""
    numbers = [int(number) for number in runs.index]
    for key, value in wanted.items():
        if not numbers:
            break
        column = runs[key]
        numbers = [number for number in numbers if _fits(column.loc[number], value)]
    return numbers


def _fits(have: Any, wanted: int | float | str | bool | None) -> bool:
    if pd.isna(have):
        return wanted == NONE
    if isinstance(wanted, str) and wanted.endswith("*"):
        return str(have).startswith(wanted[:-1])
    return str(have) in wanted.split("|") if isinstance(wanted, str) else bool(have == wanted)
