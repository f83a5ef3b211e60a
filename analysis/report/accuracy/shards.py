"""Label skew: which labels each worker has, where some runs did not share them out evenly."""

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import PALETTE, axis, hover
from analysis.report.page import Block, Chart, Choice, Column, Row, Section, Table
from analysis.tables.configurations import Configuration
from cluster.observe.units import percents

MOST_WORKERS = 32
"""More bars could not be told apart."""
MEANS = ("label_skew", "accuracy", "consensus_distance")
LABEL_COLOURS = PALETTE[:10]
COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("partition", "partition", style="word"),
    Column("label skew", "label_skew", "{:.2f}".format),
    Column("fewest labels of a worker", "fewest_labels"),
    Column("smallest shard", "smallest", "{:,}".format),
    Column("largest shard", "largest", "{:,}".format),
    Column("accuracy", "accuracy", percents()),
    Column("consensus distance", "consensus_distance", "{:.2g}".format),
]
NOTE = (
    "Label skew: total variation distance between a worker's labels and all labels, mean over"
    " workers; 0 means equal distributions, near 1 means nearly disjoint ones. A label counts for a"
    " worker that has at least one sample of it. Bars: training samples of each label by worker"
    " (first seed). Numbers are means over seeds."
)


def section(report: Report) -> Section | None:
    known = [config for config in report.configurations if not _counts(report, config).empty]
    if all(
        pd.isna(config.row["partition"]) or config.row["partition"] == "iid" for config in known
    ):
        return None
    known.sort(key=lambda config: -(config.mean("label_skew") or 0))
    rows = [_row(report, config) for config in known]
    charts = {
        config.label: _chart(_counts(report, config))
        for config in known
        if config.row["workers"] <= MOST_WORKERS
    }
    body: list[Block] = [Table(rows, COLUMNS)]
    if charts:
        title = "Training samples of each label, by worker"
        body.append(Choice("labels-by-worker", title, "run", charts))
    counts = pd.concat(
        [_counts(report, config).assign(configuration=config.label) for config in known],
        ignore_index=True,
    )
    tables = {
        "label_skew": pd.DataFrame(rows),
        "labels": counts[["configuration", "rank", "label", "count"]],
    }
    return Section("shards", "Label skew", body, NOTE, tables)


def _counts(report: Report, configuration: Configuration) -> pd.DataFrame:
    """Of its first seed; empty where a worker has no samples."""
    shards = report.runs.shards
    mine = shards[shards["number"] == configuration.numbers[0]]
    return mine if (mine.groupby("rank")["count"].sum() > 0).all() else mine[:0]


def _row(report: Report, configuration: Configuration) -> Row:
    counts = _counts(report, configuration)
    samples = counts.groupby("rank")["count"].sum()
    labels = counts[counts["count"] > 0].groupby("rank")["label"].nunique()
    return {
        "configuration": configuration.label,
        "strategy": configuration.strategy,
        "partition": configuration.row["partition"],
        "fewest_labels": int(labels.min()),
        "smallest": int(samples.min()),
        "largest": int(samples.max()),
        **{name: configuration.mean(name) for name in MEANS},
    }


def _chart(counts: pd.DataFrame) -> Chart:
    names = [f"node{rank}" for rank in sorted(counts["rank"].unique())]
    traces = [
        {
            "type": "bar",
            "x": names,
            "y": [int(count) for count in members.sort_values("rank")["count"]],
            "name": f"label {label}",
            "marker": {"color": LABEL_COLOURS[int(str(label)) % len(LABEL_COLOURS)]},
            "hovertemplate": hover("%{x}: %{y:,} of {}", f"label {label}"),
        }
        for label, members in counts.groupby("label")
    ]
    x, y = axis("worker", type="category", showgrid=False), axis("training samples")
    return Chart(traces, 380, x, y, {"barmode": "stack"})
