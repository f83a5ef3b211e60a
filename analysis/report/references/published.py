"""Published tables in their own form, our values beside them, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pandas as pd

from analysis.report.context import Report
from analysis.report.page import Block, Bullets, Column, Heading, Row, Section, Table, Text, texts
from analysis.report.references.lab_forms import filled_sheets, sheet_blocks, with_epochs
from analysis.report.references.papers import NO_PRESET, Preset
from analysis.report.references.published_tables import (
    TableComparison,
    agrees,
    compare_tables,
    verdict,
)
from analysis.report.traffic.bandwidth import exchange
from analysis.tables.configurations import mean_of
from analysis.tables.labels import in_common
from cluster.observe.units import bytes_text

NOTE = (
    "Published numbers are the papers' own (analysis/published/*.toml). Machines, links and"
    " libraries differ, so orders and ratios are compared, not values. Values within 3 % of each"
    " other have no order. Ratios agree within a factor of 1.25. Our step times are medians."
)
ACTIVITY = (
    "The published network activity is not a number of bytes. Once a second the sent and received"
    " counters of all containers were read, and all readings were added up. Counters are"
    " cumulative, so a byte counts again in every later reading, and twice, at its sender and its"
    " receiver. At a steady rate the sum is the bytes times half of the run's seconds, times two:"
    " it measures the duration of the run at least as much as its traffic. The table adds the bytes"
    " actually sent, and how often the sum counts each of them."
)
QUICK = (
    "Our runs are of the preset's quick variant, which trains less than the paper did: accuracies"
    " are lower and total times shorter than without --quick."
)
KINDS = ("published", "ours")
TRUE_BYTES = [
    Column("actually sent, ours", "true_bytes", bytes_text),
    Column("of which in training", "train_bytes", bytes_text),
    Column("times each byte is counted", "times", "{:.1f}".format),
]


def section(report: Report) -> Section | None:
    runs = _with_derived(report)
    presets = {name: _preset(found.command) for name, found in report.environments.items()}
    tables = compare_tables(runs, presets)
    sheets = filled_sheets(with_epochs(runs, report.runs.epochs), presets)
    body = [block for found in tables for block in _blocks(found, runs)]
    body += [block for sheet in sheets for block in sheet_blocks(sheet)]
    if not body:
        return None
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
    title = "Comparison with published tables"
    return Section("published", title, body, NOTE, {"published": pd.DataFrame(rows)})


def _with_derived(report: Report) -> pd.DataFrame:
    """The completed runs with the columns that published tables name."""
    table = report.runs.completed.copy()
    for epoch in (1, 2, 3):
        points = report.runs.curves[report.runs.curves["epoch"] == epoch]
        table[f"epoch_{epoch}_accuracy"] = points.set_index("number")["accuracy"]
    found = [exchange(run, run["exposed_communication_median_s"]) for _, run in table.iterrows()]
    table["busbw_gb_per_s"] = [each[1].busbw / 1e9 if each else None for each in found]
    return table


def _preset(command: Sequence[str]) -> Preset:
    for word, after in pairwise([*command, ""]):
        if word == "--preset" or word.startswith("--preset="):
            return Preset(word.partition("=")[2] or after, "--quick" in command)
    return NO_PRESET


def _blocks(found: TableComparison, runs: pd.DataFrame) -> list[Block]:
    verdicts = [verdict(each) for each in found.columns if not each.column.of_first]
    differs = not all(agrees(each) for each in found.columns if len(each.both) > 1)
    rows = _rows(found, runs)
    mine = runs.loc[[number for numbers in found.numbers for number in numbers]]
    command = f"./measure.sh --preset {found.paper.preset}"
    about = f"Ours: session {found.session}, {in_common(mine)}; made by {command}."
    return [
        Heading(found.paper.title),
        Text(f"{found.paper.authors}. {found.table.title}. {about}", "note"),
        *texts(QUICK if found.is_quick else ""),
        _across(found) if found.table.across else _down(found, rows),
        Bullets(verdicts),
        *texts(f"{'Reasons for the difference' if differs else 'Note'}: {found.table.why}"),
        *(texts(ACTIVITY, _claim(rows)) if found.table.activity else []),
    ]


def _text(found: TableComparison, place: int, kind: str) -> Callable[[float], str]:
    """Ours of a sum of counters is so much smaller that it needs another unit."""
    if kind == "ours" and found.table.activity and place == 0:
        return lambda value: bytes_text(1e12 * value)
    digits = found.columns[place].column.digits
    if kind == "published":  # all digits that were published
        return lambda value: max(f"{value:.{digits}f}", str(value), key=len)
    return f"{{:.{digits}f}}".format


def _heading(found: TableComparison, place: int, kind: str) -> str:
    column = found.columns[place].column
    own_unit = found.table.activity and place == 0 and kind == "ours"
    unit = f" ({column.unit})" if column.unit and not own_unit else ""
    return f"{column.heading}{unit}: {kind}"


def _down(found: TableComparison, rows: list[Row]) -> Table:
    columns = [
        Column(head, f"head_{place}", style="word") for place, head in enumerate(found.table.heads)
    ]
    columns += [
        Column(_heading(found, place, kind), f"{kind}_{place}", _text(found, place, kind))
        for place in range(len(found.columns))
        for kind in KINDS
    ]
    return Table(rows, [*columns, *(TRUE_BYTES if found.table.activity else [])])


def _across(found: TableComparison) -> Table:
    """The paper's rows side by side, published values above ours."""
    labels = found.columns[0].labels
    columns = [Column("", "what", style="left")]
    columns += [Column(label, f"of_{place}") for place, label in enumerate(labels)]
    rows: list[Row] = []
    for place, column in enumerate(found.columns):
        for kind, values in zip(KINDS, (column.published, column.ours), strict=True):
            text = _text(found, place, kind)
            row: Row = {"what": _heading(found, place, kind)}
            for at, value in enumerate(values):
                row[f"of_{at}"] = "-" if value is None else text(value)
            rows.append(row)
    return Table(rows, columns)


def _rows(found: TableComparison, runs: pd.DataFrame) -> list[Row]:
    rows: list[Row] = []
    for at, published in enumerate(found.table.rows):
        row: Row = {"label": published.label}
        cells = published.cells or [published.label]
        row |= {f"head_{place}": text for place, text in enumerate(cells)}
        for place, column in enumerate(found.columns):
            row |= {f"published_{place}": column.published[at], f"ours_{place}": column.ours[at]}
        if found.table.activity and found.numbers[at]:
            row |= _true_bytes(runs.loc[list(found.numbers[at])])
        rows.append(row)
    return rows


def _claim(rows: list[Row]) -> str:
    """Whether fewer passes with more epochs send fewer bytes in training than all-reduce."""
    by_workers: dict[str, list[float]] = {}
    for row in rows:
        workers = row["label"].partition(",")[0]
        by_workers.setdefault(workers, []).append(row.get("train_bytes") or 0)
    ratios = [
        f"{workers}: {found[-1] / found[0]:.2f} times"
        for workers, found in by_workers.items()
        if all(found)
    ]
    if not ratios:
        return ""
    return (
        "Bytes actually sent in training, last row of each number of workers (fewest passes, most"
        f" iterations) over its first (all-reduce): {', '.join(ratios)}."
    )


def _true_bytes(runs: pd.DataFrame) -> Row:
    total, train = mean_of(runs["total_sent_bytes"]), mean_of(runs["train_sent_bytes"])
    activity = mean_of(runs["network_activity_sum"])
    times = activity / total if total and activity is not None else None
    return {"true_bytes": total, "train_bytes": train, "times": times}
