"""Lab sheets: their empty tables, filled in with our runs (analysis/published/*.toml, `form`).

A table has rows of its own, each with the options of the runs it stands for; or else numbers of
workers down and batch sizes across. Several seeds are averaged. The newest session that fills a
sheet's tables is taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.report.page import Block, Column, Heading, Table, Text, texts
from analysis.report.references import papers
from analysis.report.references.papers import Paper, PaperTable, Preset
from analysis.tables.configurations import samples_per_epoch

SMALL = (
    "Our runs are of the preset's quick variant: a small network on MNIST instead of ResNet-18 on"
    " CIFAR-10."
)


@dataclass(frozen=True)
class Filled:
    title: str
    columns: tuple[Column, ...]
    """But the first, which names the row."""
    rows: tuple[tuple[str, tuple[float | None, ...]], ...]


@dataclass(frozen=True)
class Sheet:
    paper: Paper
    session: str
    is_quick: bool
    tables: tuple[Filled, ...]


def filled_sheets(runs: pd.DataFrame, presets: Mapping[str, Preset]) -> list[Sheet]:
    """`runs`: completed ones, with every column the sheets name (see with_epochs)."""
    found: dict[str, Sheet] = {}
    for paper in (paper for paper in papers.papers() if paper.form):
        for session, of_session in runs.groupby("session", sort=True):
            preset = presets.get(str(session), papers.NO_PRESET)
            made_for_it = preset.name == paper.preset
            fitting = [
                made_for_it or papers.fits(run, paper.given) for _, run in of_session.iterrows()
            ]
            mine = with_speed_up(of_session[fitting])
            if mine["batch_size"].nunique() < 2:
                continue
            tables = tuple(table for form in paper.tables if (table := fill(form, mine)).rows)
            if tables:
                is_quick = made_for_it and preset.is_quick
                found[paper.title] = Sheet(paper, str(session), is_quick, tables)
    return list(found.values())


def with_epochs(runs: pd.DataFrame, epochs: pd.DataFrame) -> pd.DataFrame:
    """Adds times of the second epoch, and loss and accuracy of the last."""
    runs = runs.copy()
    second = epochs[epochs["epoch"] == 2].set_index("number")
    for name, of_epoch in (
        ("second_epoch_s", "seconds"),
        ("second_epoch_compute_s", "compute_s"),
        ("second_epoch_communication_s", "exposed_communication_s"),
    ):
        runs[name] = second[of_epoch]
    last = epochs.sort_values("epoch").groupby("number").last()
    runs["last_train_loss"] = last["train_loss"]
    runs["last_train_accuracy"] = last["train_accuracy"]
    return runs


def with_speed_up(runs: pd.DataFrame) -> pd.DataFrame:
    """Adds one worker's seconds per sample over those of a run with the same options."""
    runs = runs.assign(gpu=runs["gpu"].fillna(0))  # older runs do not say
    options = ["batch_size", "train_size", "epochs", "gpu"]
    samples = [samples_per_epoch(run) for _, run in runs.iterrows()]
    runs["sample_s"] = runs["second_epoch_s"].astype(float) / samples
    single = runs[runs["strategy"] == "single"].groupby(options)["sample_s"].mean()
    runs["speed_up"] = [
        single.get(tuple(run[options]), float("nan")) / run["sample_s"]
        for _, run in runs.iterrows()
    ]
    return runs


def fill(form: PaperTable, runs: pd.DataFrame) -> Filled:
    """Rows without a value are left out."""
    if form.rows:
        columns = [(column.heading, column, None) for column in form.columns]
        parts = [(row.label, papers.matching(runs, row.match)) for row in form.rows]
    else:
        runs = papers.matching(runs, form.match)
        columns = [
            (f"batch size {size}: {column.heading}", column, size)
            for size in sorted(runs["batch_size"].dropna().unique())
            for column in form.columns
        ]
        parts = [
            (f"{workers} worker{'s' if workers != 1 else ''}", part)
            for workers, part in runs.groupby("workers")
        ]
    rows = []
    for label, part in parts:
        values = tuple(
            column.mean(part if size is None else part[part["batch_size"] == size])
            for _, column, size in columns
        )
        if any(value is not None for value in values):
            rows.append((label, values))
    shown = tuple(
        Column(heading, f"value_{place}", f"{{:.{column.digits}f}}".format)
        for place, (heading, column, _) in enumerate(columns)
    )
    return Filled(form.title, shown, tuple(rows))


def sheet_blocks(sheet: Sheet) -> list[Block]:
    about = f"Ours: session {sheet.session}; made by ./measure.sh --preset {sheet.paper.preset}."
    blocks: list[Block] = [Heading(sheet.paper.title), Text(about, "note")]
    blocks += texts(sheet.paper.about, SMALL if sheet.is_quick else "")
    for filled in sheet.tables:
        keys = ["label", *(column.key for column in filled.columns)]
        rows = [dict(zip(keys, (label, *values), strict=True)) for label, values in filled.rows]
        columns = [Column("", "label", style="left"), *filled.columns]
        blocks += [Text(f"{filled.title}."), Table(rows, columns)]
    return blocks
