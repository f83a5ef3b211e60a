"""Published tables beside our runs: which runs are meant, and whether they agree.

A row of a table names the options of the run it stands for (and our column, where it differs from
the table's). Runs of one session are compared, that with the most rows; a session made with the
paper's own preset may have fewer epochs than the paper (a quick variant): where no rows match, they
match without them. Several seeds are averaged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import pandas as pd

from analysis.report.references import papers
from analysis.report.references.papers import Paper, PaperColumn, PaperTable, Preset
from analysis.tables.noise import TIMES_AGREE, Measured, distinguishable

QUICK = ("epochs", "train_size")
"""Options that a quick variant of a preset may reduce."""
FEWEST_ROWS = 2
RATIO_AGREES = 1.25
"""Ratios within this factor of the published ones agree."""


@dataclass(frozen=True)
class Compared:
    """One column of one table: rows that have both values, in the order of the paper."""

    column: PaperColumn
    labels: tuple[str, ...]
    published: tuple[float, ...]
    ours: tuple[float | None, ...]
    spreads: tuple[Measured | None, ...] = ()
    """Ours with their range over seeds; empty: times of one seed."""

    @property
    def rows(self) -> list[tuple[str, float, float | None]]:
        return list(zip(self.labels, self.published, self.ours, strict=True))

    @property
    def both(self) -> list[tuple[str, float, float]]:
        return [(label, theirs, mine) for label, theirs, mine in self.rows if mine is not None]


@dataclass(frozen=True)
class TableComparison:
    """One published table with ours."""

    paper: Paper
    table: PaperTable
    session: str
    columns: tuple[Compared, ...]
    numbers: tuple[tuple[int, ...], ...]
    """Our runs, row by row."""
    is_quick: bool
    """Ours are of the preset's quick variant."""


def compare_tables(table: pd.DataFrame, presets: Mapping[str, Preset]) -> list[TableComparison]:
    """`table`: completed runs with every column the papers name; `presets`: by session."""
    found = [
        _best_session(paper, published, table, presets)
        for paper in papers.papers()
        for published in paper.tables
        if not published.is_form
    ]
    return [best for best in found if best is not None]


def _best_session(
    paper: Paper, published: PaperTable, table: pd.DataFrame, presets: Mapping[str, Preset]
) -> TableComparison | None:
    """The last one with the most rows; None where none has enough."""
    best: TableComparison | None = None
    most = FEWEST_ROWS
    for session, runs in table.groupby("session", sort=True):
        preset = presets.get(str(session), papers.NO_PRESET)
        of_paper = preset.name.startswith(paper.preset)
        numbers = _numbers(paper, published, runs)
        if of_paper and _rows(numbers) < FEWEST_ROWS:
            numbers = _numbers(paper, published, runs, without=QUICK)
        if _rows(numbers) >= most:
            most = _rows(numbers)
            columns = _columns(published, runs, numbers)
            is_quick = of_paper and preset.is_quick
            best = TableComparison(
                paper, published, str(session), columns, tuple(numbers), is_quick
            )
    return best


def _rows(numbers: Sequence[Sequence[int]]) -> int:
    """How many rows of a table have runs."""
    return sum(map(bool, numbers))


def _columns(
    published: PaperTable, runs: pd.DataFrame, numbers: Sequence[Sequence[int]]
) -> tuple[Compared, ...]:
    return tuple(
        Compared(
            column,
            tuple(row.label for row in published.rows),
            tuple(row.values[place] for row in published.rows),
            _ours(runs, published, numbers, column),
            _spreads(runs, published, numbers, column),
        )
        for place, column in enumerate(published.columns)
    )


def _numbers(
    paper: Paper, published: PaperTable, runs: pd.DataFrame, without: Sequence[str] = ()
) -> list[tuple[int, ...]]:
    """Our runs, row by row; `without` some options, which may differ."""
    found = []
    for row in published.rows:
        wanted = {**paper.given, **published.match, **row.match}
        wanted = {key: value for key, value in wanted.items() if key not in without}
        found.append(tuple(papers.matching_numbers(runs, wanted)))
    return found


def _ours(
    runs: pd.DataFrame,
    published: PaperTable,
    numbers: Sequence[Sequence[int]],
    column: PaperColumn,
) -> tuple[float | None, ...]:
    found = [
        column.mean(runs.loc[list(of_row)], row.ours)
        for row, of_row in zip(published.rows, numbers, strict=True)
    ]
    if not column.of_first:
        return tuple(found)
    first = found[0]
    return tuple(100 * value / first if value is not None and first else None for value in found)


def _spreads(
    runs: pd.DataFrame,
    published: PaperTable,
    numbers: Sequence[Sequence[int]],
    column: PaperColumn,
) -> tuple[Measured | None, ...]:
    found: list[Measured | None] = []
    for row, of_row in zip(published.rows, numbers, strict=True):
        name = row.ours or column.ours
        values = runs.loc[list(of_row)][name].dropna().astype(float)
        if values.empty:
            found.append(None)
            continue
        ends = float(values.mean()), float(values.min()), float(values.max())
        is_time = not name.endswith("accuracy")
        found.append(Measured(row.label, row.label, *ends, len(values), is_time=is_time))
    return tuple(found)


def verdict(compared: Compared) -> str:
    """Whether the order and the ratios agree."""
    both, heading = compared.both, compared.column.heading
    if len(both) < 2:
        rows = "only one row has" if both else "no row has"
        return f"{heading}: {rows} both values: no comparison."
    return f"{heading}: {_order(compared)} {_ratios(both)}"


def agrees(compared: Compared) -> bool:
    return not any(_pairs(compared).values()) and _furthest(compared.both)[0] <= RATIO_AGREES


def _pairs(compared: Compared) -> dict[tuple[str, str], bool]:
    """Pairs of rows that have an order in both, and whether it is reversed here.

    Ours have one where they differ by more than noise (analysis/tables/noise.py).
    """
    spreads = compared.spreads or tuple(
        None if mine is None else Measured(label, label, mine, mine, mine, is_time=True)
        for label, _, mine in compared.rows
    )
    known = [
        (theirs, mine)
        for theirs, mine in zip(compared.published, spreads, strict=True)
        if mine is not None
    ]
    return {
        (ours.label, ours_too.label): (theirs < theirs_too) != (ours.mean < ours_too.mean)
        for (theirs, ours), (theirs_too, ours_too) in combinations(known, 2)
        if _differ(theirs, theirs_too, ours.is_time) and distinguishable(ours, ours_too)
    }


def _differ(theirs: float, theirs_too: float, is_time: bool) -> bool:
    """Published numbers tell no noise: times must differ as much as ours of one seed."""
    share = TIMES_AGREE if is_time else 0
    return abs(theirs - theirs_too) > share * min(abs(theirs), abs(theirs_too))


def _order(compared: Compared) -> str:
    found = _pairs(compared)
    swapped = [pair for pair, reversed_here in found.items() if reversed_here]
    pairs = len(compared.both) * (len(compared.both) - 1) // 2
    if not found:
        return "no two of our rows differ by more than noise, so there is no order to compare."
    if not swapped:
        few = f" in the {len(found)} of {pairs} pairs that differ by more than noise"
        return f"the order is the same{few if len(found) < pairs else ''}."
    if len(swapped) == pairs:
        return "the order is reversed."
    such = "" if len(swapped) == 1 else "such as "
    pair = f"{swapped[0][0]} and {swapped[0][1]}"
    return f"{len(swapped)} of {pairs} pairs are reversed ({such}{pair})."


def _furthest(both: Sequence[tuple[str, float, float]]) -> tuple[float, str, float, float]:
    """The ratio to the first row furthest from the published one: factor, label, both ratios."""
    _, first_theirs, first_ours = both[0]
    worst = (1.0, both[0][0], 1.0, 1.0)
    for label, theirs, ours in both[1:]:
        ratios = theirs / first_theirs, (ours / first_ours if first_ours else float("inf"))
        factor = max(ratios[0], ratios[1]) / min(ratios) if min(ratios) > 0 else float("inf")
        if factor > worst[0]:
            worst = (factor, label, *ratios)
    return worst


def _ratios(both: Sequence[tuple[str, float, float]]) -> str:
    factor, label, theirs, ours = _furthest(both)
    within = "agree" if factor <= RATIO_AGREES else "do not agree"
    if factor == 1.0:
        return "Ratios agree."
    furthest = ", the largest difference" if len(both) > 2 else ""
    which = f"{label} over {both[0][0]} is {theirs:.2f} published and {ours:.2f} here"
    return f"Ratios {within}: {which}{furthest}."
