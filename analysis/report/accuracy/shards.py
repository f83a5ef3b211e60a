"""Which labels each worker has: only where some runs did not share them out evenly."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import axis
from analysis.report.page import Chart, Column, Section, choice_html, table_html
from analysis.tables.configurations import Configuration, mean

MOST_WORKERS = 32
"""More would be bars that nobody can tell apart."""
LABEL_COLOURS = (
    *("#2f7ed8", "#d9730d", "#1f9d6b", "#c2417c", "#8b6cd9"),
    *("#a08300", "#1797a6", "#d64545", "#5f8f1f", "#7d848c"),
)
COLUMNS = [
    Column("configuration", "configuration", left=True),
    Column("partition", "partition", word=True),
    Column("label_skew", "label_skew", "{:.2f}".format),
    Column("fewest labels of a worker", "fewest_labels"),
    Column("smallest shard", "smallest", "{:,}".format),
    Column("largest shard", "largest", "{:,}".format),
    Column("accuracy", "accuracy", "{:.2%}".format),
    Column("consensus distance", "consensus_distance", "{:.2g}".format),
]
NOTE = (
    "Label skew: how far the labels of a worker are from everybody's, as total variation distance, mean over workers;"
    " 0 is alike, towards 1 is nothing in common. A label counts for a worker that has any of it. Bars: how many training"
    " samples of each label a worker has (first seed). Numbers are means of seeds."
)


def section(report: Report) -> Section | None:
    known = [one for one in report.configurations if not _counts(report, one).empty]
    if all(pd.isna(one.row["partition"]) or one.row["partition"] == "iid" for one in known):
        return None
    known.sort(key=lambda one: -(mean(report.runs, one, "label_skew") or 0))
    rows = [_row(report, one) for one in known]
    charts = {
        one.label: _chart(_counts(report, one))
        for one in known
        if one.row["workers"] <= MOST_WORKERS
    }
    parts = [table_html(rows, COLUMNS)]
    if charts:
        title = "Training samples of each label, by worker"
        parts.append(choice_html("labels-by-worker", title, "run", charts))
    counts = pd.concat(
        [_counts(report, one).assign(configuration=one.label) for one in known], ignore_index=True
    )
    return Section(
        "shards",
        "Who has which labels",
        "\n".join(parts),
        NOTE,
        tables={
            "label_skew": pd.DataFrame(rows),
            "labels": counts[["configuration", "rank", "label", "count"]],
        },
    )


def _counts(report: Report, one: Configuration) -> pd.DataFrame:
    """Of its first seed; empty where a worker has nothing."""
    mine = report.runs.shards[report.runs.shards["number"] == one.numbers[0]]
    return mine if (mine.groupby("rank")["count"].sum() > 0).all() else mine[:0]


def _row(report: Report, one: Configuration) -> dict[str, Any]:
    counts = _counts(report, one)
    samples = counts.groupby("rank")["count"].sum()
    labels = counts[counts["count"] > 0].groupby("rank")["label"].nunique()
    return {
        "configuration": one.label,
        "strategy": one.strategy,
        "partition": one.row["partition"],
        "fewest_labels": int(labels.min()),
        "smallest": int(samples.min()),
        "largest": int(samples.max()),
        **{
            name: mean(report.runs, one, name)
            for name in ("label_skew", "accuracy", "consensus_distance")
        },
    }


def _chart(counts: pd.DataFrame) -> Chart:
    names = [f"node{rank}" for rank in sorted(counts["rank"].unique())]
    traces = []
    for label, members in counts.groupby("label"):
        name = f"label {label}"
        traces.append(
            {
                "type": "bar",
                "x": names,
                "y": [int(count) for count in members.sort_values("rank")["count"]],
                "name": escape(name),
                "marker": {"color": LABEL_COLOURS[int(str(label)) % len(LABEL_COLOURS)]},
                "hovertemplate": f"%{{x}}: %{{y:,}} of {escape(name)}<extra></extra>",
            }
        )
    layout = {
        "height": 380,
        "barmode": "stack",
        "xaxis": axis("worker", type="category", showgrid=False),
        "yaxis": axis("training samples"),
    }
    return Chart("", "", traces, layout)
