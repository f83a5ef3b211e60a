"""Published tables and lab sheets in their own form, our values beside them, and conclusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.report.context import Report
from analysis.report.page import Block, Bullets, Heading, Section, Text, texts
from analysis.report.references.compared import contended
from analysis.report.references.conclusions import conclusions
from analysis.report.references.derived import with_derived
from analysis.report.references.lab_forms import Sheet, filled_sheets, form_blocks
from analysis.report.references.papers import Paper, papers, preset_of
from analysis.report.references.published_tables import TableComparison, compare_tables
from analysis.report.references.table_blocks import table_blocks
from analysis.tables.labels import in_common

NOTE = (
    "Published numbers are the papers' own (analysis/published/*.toml). Machines, links and"
    " libraries differ, so orders and ratios are compared, not values. Ours have an order where"
    " they differ by more than noise over seeds, or with one seed by more than 15 %. Ratios agree"
    " within a factor of 1.25. Our step times are medians."
)
QUICK = (
    "Our runs are of the preset's quick variant, which trains less (and may have a smaller network"
    " or smaller batches): accuracies are lower and times shorter than without --quick."
)


def section(report: Report) -> Section | None:
    if report.runs.completed.empty:
        return None
    derived = with_derived(report.runs)
    completed = derived[~derived["out_of_memory"]]
    presets = {name: preset_of(found.command) for name, found in report.environments.items()}
    tables = compare_tables(completed, presets)
    sheets = filled_sheets(derived, presets)
    busy = contended(derived) | report.contended
    body = [
        block
        for paper in papers()
        for block in _blocks(
            paper,
            [found for found in tables if found.paper.title == paper.title],
            next((sheet for sheet in sheets if sheet.paper.title == paper.title), None),
            derived,
            busy,
        )
    ]
    if not body:
        return None
    title = "Comparison with published tables"
    return Section("published", title, body, NOTE, {"published": _values(tables)})


def _blocks(
    paper: Paper,
    tables: Sequence[TableComparison],
    sheet: Sheet | None,
    runs: pd.DataFrame,
    busy: Mapping[int, str],
) -> list[Block]:
    """One paper's: conclusions in words, published tables, forms. `busy`: contended runs."""
    if not tables and sheet is None:
        return []
    sessions = {found.session: found.is_quick for found in tables}
    if sheet is not None:
        sessions[sheet.session] = sheet.is_quick
    session, is_quick = max(sessions.items())
    mine = runs[runs["session"] == session]
    about = f"Ours: session {session}, {in_common(mine)}; made by ./measure.sh --preset"
    return [
        Heading(paper.title),
        Text(f"{paper.authors}. {about} {paper.preset}.", "note"),
        *texts(QUICK if is_quick else ""),
        Bullets(conclusions(paper.preset, mine)),
        *(block for found in tables for block in table_blocks(found, runs, busy)),
        *(texts(paper.about) if sheet is not None else []),
        *(
            block
            for filled in (sheet.tables if sheet else ())
            for block in form_blocks(filled, busy)
        ),
    ]


def _values(tables: Sequence[TableComparison]) -> pd.DataFrame:
    """tables/published.csv: every published value beside ours."""
    rows = [
        {
            "paper": found.paper.title,
            "table": found.table.title,
            "row": label,
            "column": compared.column.heading,
            "unit": compared.column.unit,
            "published": theirs,
            "ours": mine,
            "session": found.session,
        }
        for found in tables
        for compared in found.columns
        for label, theirs, mine in compared.rows
    ]
    return pd.DataFrame(rows)
