"""One published table beside our runs, as the blocks of a page: table, verdicts, reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from analysis.report.figures import bytes_scale, chart_of_bars, colour, hover
from analysis.report.page import Block, Bullets, Chart, Column, Row, Table, Text, Trace, texts
from analysis.report.references.papers import PaperRow
from analysis.report.references.published_tables import TableComparison, agrees, verdict
from analysis.tables.configurations import mean_of
from cluster.observe.units import bytes_text, percent_text

ACTIVITY = (
    "The published network activity is not a number of bytes. Once a second the sent and received"
    " counters of all containers were read, and all readings were added up. Counters are"
    " cumulative, so a byte counts again in every later reading, and twice, at its sender and its"
    " receiver. At a steady rate the sum is the bytes times half of the run's seconds, times two:"
    " it measures the duration of the run at least as much as its traffic. The table adds the bytes"
    " actually sent, and how often the sum counts each of them."
)
KINDS = ("published", "ours")
TRUE_BYTES = [
    Column("actually sent, ours", "true_bytes", bytes_text),
    Column("of which in training", "train_bytes", bytes_text),
    Column("times each byte is counted", "times", "{:.1f}".format),
]


def table_blocks(
    found: TableComparison, runs: pd.DataFrame, contended: Mapping[int, str]
) -> list[Block]:
    """Nothing is said about the order of times where a run's host was contended: `contended`."""
    reason = next(
        (contended[number] for row in found.numbers for number in row if number in contended), ""
    )
    verdicts = [
        f"{each.column.heading}: {reason}." if each.column.is_time and reason else verdict(each)
        for each in found.columns
        if not each.column.of_first
    ]
    differs = not all(agrees(each) for each in found.columns if len(each.both) > 1)
    rows = _rows(found, runs)
    return [
        Text(f"{found.table.title}."),
        _across(found, runs, bool(reason))
        if found.table.across
        else _down(found, rows, bool(reason)),
        *([_bars(found, runs)] if found.table.bars else []),
        Bullets(verdicts),
        *texts(f"{'Reasons for the difference' if differs else 'Note'}: {found.table.why}"),
        *(texts(ACTIVITY, _claim(rows)) if found.table.activity else []),
    ]


def _text(found: TableComparison, place: int, kind: str) -> Callable[[float], str]:
    """Ours of a sum of counters is so much smaller that it needs another unit."""
    if kind == "ours" and found.table.activity and place == 0:
        return lambda value: bytes_text(1e12 * value)
    column = found.columns[place].column
    if kind == "published":  # all digits that were published
        return lambda value: max(column.text(value), str(value), key=len)
    return column.text


def _heading(found: TableComparison, place: int, kind: str) -> str:
    column = found.columns[place].column
    own_unit = found.table.activity and place == 0 and kind == "ours"
    unit = f" ({column.unit})" if column.unit and not own_unit else ""
    return f"{column.heading}{unit}: {kind}"


def _down(found: TableComparison, rows: list[Row], grey: bool) -> Table:
    rows = [row | {"contended": grey} for row in rows]
    columns = [
        Column(head, f"head_{place}", style="word") for place, head in enumerate(found.table.heads)
    ]
    columns += [
        Column(
            _heading(found, place, kind),
            f"{kind}_{place}",
            _text(found, place, kind),
            from_times=kind == "ours" and found.columns[place].column.is_time,
        )
        for place in range(len(found.columns))
        for kind in KINDS
    ]
    return Table(rows, [*columns, *(TRUE_BYTES if found.table.activity else [])])


def _across(found: TableComparison, runs: pd.DataFrame, grey: bool) -> Table:
    """The paper's rows side by side, published values above ours, run by run where they are."""
    labels = found.columns[0].labels
    columns = [Column("", "what", style="left")]
    columns += [Column(label, f"of_{place}", from_times=True) for place, label in enumerate(labels)]
    rows = _run_by_run(found, runs, grey)
    for place, column in enumerate(found.columns):
        for kind, values in zip(KINDS, (column.published, column.ours), strict=True):
            text = _text(found, place, kind)
            time = kind == "ours" and column.column.is_time
            row: Row = {"what": _heading(found, place, kind), "contended": grey and time}
            for at, value in enumerate(values):
                row[f"of_{at}"] = "-" if value is None else text(value)
            rows.append(row)
    return Table(rows, columns)


def _run_by_run(found: TableComparison, runs: pd.DataFrame, grey: bool) -> list[Row]:
    """The first column's values of every run, where the paper has them."""
    column = found.columns[0].column
    ours = [
        [column.mean(runs.loc[[number]]) for number in numbers] if row.runs else []
        for row, numbers in zip(found.table.rows, found.numbers, strict=True)
    ]
    rows: list[Row] = []
    for place in range(max(len(row.runs) for row in found.table.rows)):
        theirs = [_at(row.runs, place) for row in found.table.rows]
        for kind, values in zip(KINDS, (theirs, [_at(own, place) for own in ours]), strict=True):
            row: Row = {"what": f"run {place + 1} ({column.unit}): {kind}"}
            row["contended"] = grey and kind == "ours"
            for at, value in enumerate(values):
                row[f"of_{at}"] = "-" if value is None else column.text(value)
            rows.append(row)
    return rows


def _at(values: Sequence[float | None], place: int) -> float | None:
    return values[place] if place < len(values) else None


def _bars(found: TableComparison, runs: pd.DataFrame) -> Chart:
    """Payload sent in training, with the accuracy on each bar, as in the paper's figure."""
    parts = [(row.label, runs.loc[list(numbers)]) for row, numbers in _with_runs(found)]
    sent = [mean_of(part["train_payload_bytes"]) or 0.0 for _, part in parts]
    scale = bytes_scale("payload sent in training by all workers", sent, may_be_log=False)
    trace: Trace = {
        "type": "bar",
        "orientation": "h",
        "x": scale(sent),
        "y": [label for label, _ in parts],
        "text": [percent_text(mean_of(part["accuracy"]) or 0.0) for _, part in parts],
        "textposition": "auto",
        "customdata": [bytes_text(value) for value in sent],
        "marker": {"color": [colour(str(part.iloc[0]["strategy"])) for _, part in parts]},
        "hovertemplate": hover("%{y}: %{customdata}, accuracy %{text}"),
    }
    upwards = [label for label, _ in parts][::-1]
    return chart_of_bars("figure-3", found.table.title, [trace], upwards, scale)


def _with_runs(found: TableComparison) -> list[tuple[PaperRow, tuple[int, ...]]]:
    pairs = zip(found.table.rows, found.numbers, strict=True)
    return [(row, numbers) for row, numbers in pairs if numbers]


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
