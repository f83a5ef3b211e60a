"""Lab sheets: their empty tables, filled in with our runs (analysis/published/*.toml).

A form has rows of its own, each with the options of the runs it stands for; or else numbers of
workers down and batch sizes across. Several seeds are averaged. The newest session that fills a
sheet's forms is taken.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.report.page import Block, Column, Row, Table, Text
from analysis.report.references import papers
from analysis.report.references.papers import Paper, PaperColumn, PaperTable, Preset

OUT_OF_MEMORY = "out of memory"
"""In the error of a run whose batch did not fit, and in its cell."""
FEWEST_ROWS = 2
"""Fewer compare nothing; and so do fewer runs."""

Value = float | str | None


@dataclass(frozen=True)
class Filled:
    title: str
    columns: tuple[Column, ...]
    """But the first, which names the row."""
    rows: tuple[tuple[str, tuple[Value, ...]], ...]
    numbers: tuple[tuple[int, ...], ...] = ()
    """Our runs, row by row."""


@dataclass(frozen=True)
class Sheet:
    paper: Paper
    session: str
    is_quick: bool
    tables: tuple[Filled, ...]


def filled_sheets(runs: pd.DataFrame, presets: Mapping[str, Preset]) -> list[Sheet]:
    """`runs`: completed or out of memory, with every column the sheets name (see derived.py)."""
    found: dict[str, Sheet] = {}
    for paper in papers.papers():
        forms = [table for table in paper.tables if table.is_form]
        for session, of_session in runs.groupby("session", sort=True):
            preset = presets.get(str(session), papers.NO_PRESET)
            made_for_it = preset.name == paper.preset
            mine = of_session if made_for_it else papers.matching(of_session, paper.given)
            if len(mine) < FEWEST_ROWS:
                continue
            filled = tuple(table for form in forms if (table := fill(form, mine)).rows)
            if filled:
                is_quick = made_for_it and preset.is_quick
                found[paper.title] = Sheet(paper, str(session), is_quick, filled)
    return list(found.values())


def fill(form: PaperTable, runs: pd.DataFrame) -> Filled:
    """Rows without a value are left out, and so are all where there is nothing to compare."""
    runs = papers.matching(runs, form.match)
    if runs.empty:
        return Filled(form.title, (), ())
    if form.rows:
        columns = [(column.heading, column, runs.index) for column in form.columns]
        parts = [(row.label, papers.matching(runs, row.match)) for row in form.rows]
    else:
        columns = [
            (f"{form.by.replace('_', ' ')} {size}: {column.heading}", column, of_size.index)
            for size, of_size in runs.groupby(form.by)
            if form.by == "batch_size" or of_size["workers"].nunique() > 1
            for column in form.columns
        ]
        parts = [
            (f"{workers} worker{'s' if workers != 1 else ''}", part)
            for workers, part in runs.groupby("workers")
        ]
    rows, numbers_of_rows = [], []
    for label, part in parts:
        values = tuple(
            _value(column, part[part.index.isin(numbers)]) for _, column, numbers in columns
        )
        if any(value is not None for value in values):
            rows.append((label, values))
            numbers_of_rows.append(tuple(int(number) for number in part.index))
    shown = tuple(
        Column(heading, f"value_{place}", _text(column), from_times=column.is_time)
        for place, (heading, column, _) in enumerate(columns)
    )
    enough = len(rows) >= FEWEST_ROWS or not form.rows
    if not enough:
        return Filled(form.title, (), ())
    return Filled(form.title, shown, tuple(rows), tuple(numbers_of_rows))


def _value(column: PaperColumn, runs: pd.DataFrame) -> Value:
    """Mean over seeds, or that a batch does not fit."""
    mean = column.mean(runs)
    return OUT_OF_MEMORY if mean is None and runs["out_of_memory"].any() else mean


def _text(column: PaperColumn) -> Callable[[Value], str]:
    return lambda value: column.text(value) if isinstance(value, float) else str(value)


def form_blocks(filled: Filled, contended: Container[int]) -> list[Block]:
    """Times of rows with a contended run are grey."""
    keys = ["label", *(column.key for column in filled.columns)]
    rows: list[Row] = [
        dict(zip(keys, (label, *values), strict=True))
        | {"contended": any(number in contended for number in numbers)}
        for (label, values), numbers in zip(filled.rows, filled.numbers, strict=True)
    ]
    columns = [Column("", "label", style="left"), *filled.columns]
    return [Text(f"{filled.title}."), Table(rows, columns)]
