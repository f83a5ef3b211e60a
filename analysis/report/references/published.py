"""Published tables in their own form, our values beside them, and whether they agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from itertools import pairwise
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.page import Column, Section, bullets, paragraphs, table_html
from analysis.report.references.lab_forms import Sheet, filled_sheets, with_epochs
from analysis.report.references.published_tables import Beside, Preset, agrees, beside, verdict
from analysis.tables.labels import in_common
from analysis.theory.bandwidth import bandwidth
from cluster.observe.units import bytes_text
from cluster.spec.run_folder import RunFolder

NOTE = (
    "Published numbers are the papers' own (analysis/published/*.toml). Machines, links and libraries differ, so it is the"
    " order and the ratios that are compared, not the values. Orders: values within 3 % of each other have none. Ratios"
    " agree within a factor of 1.25. Our times of a step are medians."
)
ACTIVITY = (
    "Network activity, as published, is no number of bytes. Once a second the counters of all containers were read, sent and"
    " received, and all readings were added up; but the counters are cumulative, so a byte counts again in every later"
    " reading, and twice, once where it was sent and once where it arrived. At a steady rate the sum is the bytes times"
    " half of the run's seconds, times two: it measures how long the cluster ran at least as much as what it sent. Beside it"
    " stand the bytes that were really sent, and how often the sum counted each of them."
)

QUICK = (
    "Ours are of the preset's quick variant, which trains less than the paper did: accuracies are lower and whole times"
    " shorter than those of the preset without --quick."
)
SMALL = "Ours are of the preset's quick variant: a small network on MNIST instead of ResNet-18 on CIFAR-10."
KINDS = ("published", "ours")
TRUE_BYTES = [
    Column("really sent, ours", "true_bytes", bytes_text),
    Column("of it in training", "train_bytes", bytes_text),
    Column("times each byte is counted", "times", "{:.1f}".format),
]


def section(report: Report) -> Section | None:
    runs = _with_derived(report)
    presets = _presets(report)
    found = beside(runs, presets)
    sheets = filled_sheets(with_epochs(runs, report.runs.epochs), presets)
    parts = [_table(one, runs) for one in found]
    parts += [part for sheet in sheets for part in _sheet(sheet)]
    if not parts:
        return None
    rows = [
        {
            "paper": one.paper,
            "table": one.title,
            "row": label,
            "column": column.heading,
            "unit": column.unit,
            "published": theirs,
            "ours": mine,
            "session": one.session,
        }
        for one in found
        for column in one.columns
        for label, theirs, mine in zip(column.labels, column.published, column.ours, strict=True)
    ]
    tables = {"published": pd.DataFrame(rows)}
    return Section(
        "published", "Published tables beside ours", "\n".join(parts), NOTE, tables=tables
    )


def _with_derived(report: Report) -> pd.DataFrame:
    table = report.runs.completed.copy()
    for epoch in (1, 2, 3):
        points = report.runs.curves[report.runs.curves["epoch"] == epoch]
        table[f"epoch_{epoch}_accuracy"] = points.set_index("number")["accuracy"]
    table["busbw_gb_per_s"] = [_busbw(run) for _, run in table.iterrows()]
    return table


def _busbw(run: pd.Series[Any]) -> float | None:
    exposed = run["exposed_communication_median_s"]
    if pd.isna(exposed) or not exposed or not run["rounds"] or run["workers"] < 2:
        return None
    passes = None if pd.isna(run["passes"]) else int(run["passes"])
    time_s = float(exposed) * float(run["steps"]) / float(run["rounds"])
    found = bandwidth(
        str(run["strategy"]), int(run["workers"]), passes, int(run["model_bytes"]), time_s
    )
    return found.busbw / 1e9


def _presets(report: Report) -> dict[str, Preset]:
    """Session -> the preset its command named."""
    found: dict[str, Preset] = {}
    for number, run in report.runs.completed.iterrows():
        if run["session"] not in found:
            preset = _preset(report.runs.folders[int(str(number))])
            if preset:
                found[str(run["session"])] = preset
    return found


def _preset(folder: RunFolder) -> Preset | None:
    try:
        words = [str(word) for word in json.loads(folder.environment.read_text())["command"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    for word, after in pairwise([*words, ""]):
        if word == "--preset" or word.startswith("--preset="):
            return Preset(word.partition("=")[2] or after, "--quick" in words)
    return None


def _table(one: Beside, runs: pd.DataFrame) -> str:
    said = [verdict(column) for column in one.columns if not column.of_first]
    differs = not all(agrees(column) for column in one.columns if len(column.both) > 1)
    rows = _rows(one, runs)
    mine = runs.loc[[number for numbers in one.numbers for number in numbers]]
    about = f"Ours: session {one.session}, {in_common(mine)}; ./measure.sh --preset {one.preset} makes them all."
    return "\n".join(
        [
            f"<h3>{escape(one.paper)}</h3>",
            f'<p class="note">{escape(one.authors)}. {escape(one.title)}. {escape(about)}</p>',
            paragraphs(QUICK if one.is_quick else ""),
            _across(one) if one.across else _down(one, rows),
            bullets(said),
            paragraphs(f"{'Why they differ' if differs else 'To keep in mind'}: {one.why}"),
            paragraphs(ACTIVITY, _claim(rows)) if one.activity else "",
        ]
    )


def _text(one: Beside, place: int, kind: str) -> Callable[[float], str]:
    """Ours of a sum of counters is so much smaller that it needs another unit."""
    if kind == "ours" and one.activity and place == 0:
        return lambda value: bytes_text(1e12 * value)
    digits = one.columns[place].digits
    if kind == "published":  # all digits that were published
        return lambda value: max(f"{value:.{digits}f}", str(value), key=len)
    return f"{{:.{digits}f}}".format


def _heading(one: Beside, place: int, kind: str) -> str:
    column = one.columns[place]
    own_unit = one.activity and place == 0 and kind == "ours"
    unit = f", {column.unit}" if column.unit and not own_unit else ""
    return f"{column.heading}{unit}: {kind}"


def _down(one: Beside, rows: list[dict[str, Any]]) -> str:
    columns = [Column(head, f"head_{place}", word=True) for place, head in enumerate(one.heads)]
    for place in range(len(one.columns)):
        for kind in KINDS:
            columns.append(
                Column(_heading(one, place, kind), f"{kind}_{place}", _text(one, place, kind))
            )
    return table_html(rows, [*columns, *(TRUE_BYTES if one.activity else [])])


def _across(one: Beside) -> str:
    """The paper's rows side by side, what was published above ours."""
    labels = one.columns[0].labels
    columns = [Column("", "what", left=True)]
    columns += [Column(label, f"of_{place}") for place, label in enumerate(labels)]
    rows: list[dict[str, Any]] = []
    for place, column in enumerate(one.columns):
        for kind, values in zip(KINDS, (column.published, column.ours), strict=True):
            text = _text(one, place, kind)
            row = {"what": _heading(one, place, kind)}
            for at, value in enumerate(values):
                row[f"of_{at}"] = "-" if value is None else text(value)
            rows.append(row)
    return table_html(rows, columns)


def _rows(one: Beside, runs: pd.DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for at, (label, cells) in enumerate(zip(one.columns[0].labels, one.cells, strict=True)):
        row: dict[str, Any] = {"label": label}
        row |= {f"head_{place}": text for place, text in enumerate(cells)}
        for place, column in enumerate(one.columns):
            row |= {f"published_{place}": column.published[at], f"ours_{place}": column.ours[at]}
        rows.append(row)
    if one.activity:
        _add_true_bytes(one, runs, rows)
    return rows


def _claim(rows: list[dict[str, Any]]) -> str:
    """Do fewer passes with more epochs send less than all-reduce? In bytes of training, for each number of workers."""
    by_workers: dict[str, list[float]] = {}
    for row in rows:
        by_workers.setdefault(row["label"].partition(",")[0], []).append(
            row.get("train_bytes") or 0
        )
    said = [
        f"{workers}: {found[-1] / found[0]:.2f} times"
        for workers, found in by_workers.items()
        if all(found)
    ]
    if not said:
        return ""
    return (
        "In bytes really sent in training, the last row of each number of workers (fewest passes, most iterations)"
        f" against its first (all-reduce): {', '.join(said)}."
    )


def _add_true_bytes(one: Beside, runs: pd.DataFrame, rows: list[dict[str, Any]]) -> None:
    for row, numbers in zip(rows, one.numbers, strict=True):
        if numbers:
            mine = runs.loc[list(numbers)]
            sent = mine["total_sent_bytes"].dropna().astype(float)
            total = row["true_bytes"] = None if sent.empty else float(sent.mean())
            trained = mine["train_sent_bytes"].dropna().astype(float)
            row["train_bytes"] = None if trained.empty else float(trained.mean())
            activity = mine["network_activity_sum"].dropna().astype(float)
            row["times"] = float(activity.mean()) / total if total and not activity.empty else None


def _sheet(sheet: Sheet) -> list[str]:
    parts = [
        f"<h3>{escape(sheet.title)}</h3>",
        f'<p class="note">Ours: session {escape(sheet.session)}; ./measure.sh --preset {escape(sheet.preset)} makes'
        " them all.</p>",
        paragraphs(sheet.about, SMALL if sheet.is_quick else ""),
    ]
    for filled in sheet.tables:
        columns = [Column("", "label", left=True)]
        columns += [
            Column(head, f"value_{place}", f"{{:.{digits}f}}".format)
            for place, (head, digits) in enumerate(zip(filled.heads, filled.digits, strict=True))
        ]
        rows = [
            {"label": label, **{f"value_{place}": value for place, value in enumerate(values)}}
            for label, values in filled.rows
        ]
        parts.append(paragraphs(f"{filled.title}.") + table_html(rows, columns))
    return parts
