"""Published tables and lab sheets (analysis/published/*.toml), and which runs they mean."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.tables.configurations import mean_of
from cluster.spec.documents.codec import Document, DocumentError, Options

FOLDER = Path(__file__).resolve().parents[2] / "published"


class PaperColumn(Document):
    heading: str
    ours: str
    """The column of our runs."""
    digits: int
    unit: str = ""
    scale: float = 1.0
    """Of ours, to the paper's unit."""
    of_first: bool = False
    """In percent of the first row: derived from another column."""

    def mean(self, runs: pd.DataFrame, ours: str | None = None) -> float | None:
        """Of our runs, in the paper's unit; `ours`: of another column of theirs."""
        mean = mean_of(runs[ours or self.ours])
        return None if mean is None else mean * self.scale


class PaperRow(Document):
    label: str
    match: Options
    """Options of the runs it stands for."""
    values: list[float] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    """The paper's name of the row, in as many columns as it uses; empty: the label."""
    ours: str | None = None
    """The column of our runs, where it is not its column's."""


class PaperTable(Document):
    title: str
    columns: list[PaperColumn]
    rows: list[PaperRow] = field(default_factory=list)
    """A lab sheet's table without rows has numbers of workers down and batch sizes across."""
    match: Options = field(default_factory=dict)
    why: str = ""
    """Why ours may differ."""
    heads: list[str] = field(default_factory=lambda: [""])
    activity: bool = False
    """Its first column is a sum of cumulative counters."""
    across: bool = False
    """The paper's rows are side by side."""


class Paper(Document):
    title: str
    authors: str
    preset: str
    given: Options
    """Options of all of its runs."""
    tables: list[PaperTable]
    form: bool = False
    """A lab sheet: its tables are published empty."""
    about: str = ""


@dataclass(frozen=True)
class Preset:
    """The preset of a session."""

    name: str
    is_quick: bool = False


NO_PRESET = Preset("")


def papers() -> list[Paper]:
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        try:
            found.append(Paper.from_json(tomllib.loads(path.read_text("utf-8"))))
        except DocumentError as error:
            raise DocumentError(f"{path.name}: {error}") from None
    return found


def matching(runs: pd.DataFrame, wanted: Options) -> pd.DataFrame:
    return runs[[fits(run, wanted) for _, run in runs.iterrows()]]


def fits(run: pd.Series[Any], wanted: Options) -> bool:
    """A text that ends in * matches the beginning of a name; a|b matches a and b."""
    return all(_fits(run[key], value) for key, value in wanted.items())


def _fits(have: Any, wanted: int | float | str | bool | None) -> bool:
    if pd.isna(have):
        return False
    if isinstance(wanted, str) and wanted.endswith("*"):
        return str(have).startswith(wanted[:-1])
    return have in wanted.split("|") if isinstance(wanted, str) else bool(have == wanted)
