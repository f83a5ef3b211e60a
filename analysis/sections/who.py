"""Who sends how much, measured, and to whom, from theory."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from analysis.configurations import Configuration
from analysis.figures import axis
from analysis.page import Chart, Column, Section, choice_html, table_html
from analysis.sections.report import Report
from analysis.theory import Setting
from analysis.who_to_whom import EDGES, matrix
from cluster.units import bytes_text

MOST_NODES = 48
"""A larger matrix is not drawn: its squares would be smaller than a finger."""
SENT, RECEIVED = "#2f7ed8", "#d9730d"
NOTE = (
    "Bars: what each interface counted in training, headers too. A launcher's own nodes (Spark's master and driver)"
    " stand apart from training: their bytes are in no other figure. The matrix is theory's, payload of a round: the"
    " interfaces count per node, not per peer. Its rows add up to what a node sends, its columns to what it receives."
    " Talk is what a launcher's workers say to each other beside training (Horovod, every millisecond). All nodes of all"
    " runs are in tables/nodes.csv."
)
COLUMNS = [
    Column("configuration", "configuration", left=True),
    Column("busiest node", "node", word=True),
    Column("it sent", "train_sent_bytes", bytes_text),
    Column("it received", "train_received_bytes", bytes_text),
    Column("mean of the workers", "mean_bytes", bytes_text),
    Column("busiest / mean", "ratio", "{:.2f}".format),
    Column("launcher's own nodes sent", "own_bytes", bytes_text),
    Column("talk beside training, per worker", "control_bytes", bytes_text),
    Column("of it a second", "control_rate", bytes_text),
]


def section(report: Report) -> Section | None:
    traffic = report.runs.traffic
    shown = [one for one in report.configurations if _nodes(traffic, one)["train_sent_bytes"].sum()]
    if not shown:
        return None
    bars = {one.label: _bars(_nodes(traffic, one)) for one in shown}
    matrices = {
        one.label: _matrix(one)
        for one in shown
        if one.strategy in EDGES and one.row["workers"] <= MOST_NODES
    }
    rows = [_busiest(report, one, _nodes(traffic, one)) for one in shown]
    parts = [
        table_html(rows, COLUMNS),
        choice_html("bytes-by-node", "What each node sent and received in training", "run", bars),
    ]
    if matrices:
        title = "Who sends to whom: payload of a round, from theory"
        parts.append(choice_html("who-to-whom", title, "run", matrices))
    nodes = traffic.merge(
        report.runs.table[["session", "run"]], left_on="number", right_index=True
    ).drop(columns="number")
    return Section("who", "Who sends to whom", "\n".join(parts), NOTE, tables={"nodes": nodes})


def _nodes(traffic: pd.DataFrame, one: Configuration) -> pd.DataFrame:
    """Of its first run: its seeds send alike."""
    return traffic[traffic["number"] == one.numbers[0]]


def _busiest(report: Report, one: Configuration, nodes: pd.DataFrame) -> dict[str, Any]:
    exchanging = nodes[nodes["rank"].notna()]
    busy = exchanging[["train_sent_bytes", "train_received_bytes"]].max(axis=1)
    top = exchanging.iloc[int(busy.astype(float).to_numpy().argmax())]
    mean = float(
        exchanging[exchanging["role"] == "worker"]["train_sent_bytes"].astype(float).mean()
    )
    own = nodes[nodes["rank"].isna()]["train_sent_bytes"]
    first = report.runs.table.loc[one.numbers[0]]
    return {
        "configuration": one.label,
        "strategy": one.strategy,
        "node": f"{top['node']} ({top['role']})",
        "train_sent_bytes": int(top["train_sent_bytes"]),
        "train_received_bytes": int(top["train_received_bytes"]),
        "mean_bytes": mean,
        "ratio": float(busy.max()) / mean if mean else None,
        "own_bytes": None if own.empty else int(own.sum()),
        "control_bytes": first["control_sent_bytes"],
        "control_rate": first["control_bytes_per_second"],
    }


def _bars(nodes: pd.DataFrame) -> Chart:
    names = [str(name) for name in nodes["node"]]
    traces = [
        {
            "type": "bar",
            "x": names,
            "y": [int(value) for value in nodes[f"train_{word}_bytes"]],
            "name": word,
            "marker": {"color": colour},
            "hovertemplate": f"%{{x}} {word} %{{y:.4s}}B<extra></extra>",
        }
        for word, colour in (("sent", SENT), ("received", RECEIVED))
    ]
    layout = {
        "height": 330,
        "xaxis": axis("node", type="category", showgrid=False),
        "yaxis": axis("bytes in training", tickformat="~s", ticksuffix="B"),
        "barmode": "group",
    }
    return Chart("", "", traces, layout)


def _matrix(one: Configuration) -> Chart:
    row = one.row
    found = matrix(
        one.strategy,
        Setting(
            workers=int(row["workers"]),
            model_bytes=int(row["model_bytes"]),
            passes=None if pd.isna(row["passes"]) else int(row["passes"]),
            schedule=None if pd.isna(row["schedule"]) else str(row["schedule"]),
            seed=int(row["seed"]),
            rounds=max(1, int(row["rounds"])),
        ),
    )
    names = [f"node{rank}" for rank in range(len(found))]
    trace = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": [[round(value) or None for value in line] for line in found],
        "colorscale": [[0, "rgba(217,115,13,.25)"], [1, "rgba(217,115,13,1)"]],
        "zmin": 0,
        "zmax": max(max(line) for line in found),
        "xgap": 2,
        "ygap": 2,
        "colorbar": {"ticksuffix": "B", "tickformat": "~s", "thickness": 12},
        "hovertemplate": f"{escape(one.label)}<br>%{{y}} to %{{x}}: %{{z:.4s}}B a round<extra></extra>",
    }
    layout = {
        "height": 240 + 18 * min(len(names), 24),
        "xaxis": axis("receives", type="category", showgrid=False),
        "yaxis": axis("sends", type="category", autorange="reversed", showgrid=False),
    }
    return Chart("", "", [trace], layout)
