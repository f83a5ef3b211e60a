"""Who sends how much, and to whom: measured, and from theory."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import axis
from analysis.report.page import (
    Chart,
    Column,
    Section,
    bullets,
    choice_html,
    details,
    paragraphs,
    table_html,
)
from analysis.report.traffic import matrix
from analysis.report.traffic.pair_words import words
from analysis.tables.configurations import Configuration
from analysis.tables.load import Runs
from cluster.observe.units import bytes_text

SENT, RECEIVED = "#2f7ed8", "#d9730d"
NOTE = (
    "Bars: what each interface counted in training, headers too. A launcher's own nodes (Spark's master and driver)"
    " stand apart from training: their bytes are in no other figure. The matrix is payload of a round; its rows add up to"
    " what a node sends, its columns to what it receives. Measured: every worker asks the kernel what each of its TCP"
    " connections carried (TCP_INFO) when training begins and ends; a library's framing is in it, headers and what TCP"
    " sent again are not. Talk is what a launcher's workers say to each other beside training (Horovod, every"
    " millisecond); it is estimated, and taken off the measured matrix. All nodes of all runs are in tables/nodes.csv, all"
    " pairs in tables/pairs.csv."
)
ELSEWHERE = (
    "Not shown, since eth0 did not see it: what GPUs of one host exchange goes over NVLink, PCIe or the host's memory, and"
    " eth0 carries only how they found each other and wait for each other. See the section on GPUs. That is"
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
    runs = report.runs
    sent = [one for one in report.configurations if _nodes(runs, one)["train_sent_bytes"].sum()]
    crossed = runs.table["train_sent_bytes"].notna()
    unseen = [one for one in sent if not crossed[one.numbers[0]]]
    shown = [one for one in sent if one not in unseen]
    if not sent:
        return None
    parts = [paragraphs(f"{ELSEWHERE} {'; '.join(one.label for one in unseen)}.")] if unseen else []
    tables = {}
    if shown:
        parts += [*_by_node(report, shown), *_by_pair(runs, shown)]
        tables = {"nodes": _named(runs, runs.traffic)}
        if not runs.pairs.empty:
            tables["pairs"] = _named(runs, runs.pairs)
    return Section("who", "Who sends to whom", "\n".join(parts), NOTE, tables=tables)


def _by_node(report: Report, shown: list[Configuration]) -> list[str]:
    bars = {one.label: _bars(_nodes(report.runs, one)) for one in shown}
    rows = [_busiest(report, one, _nodes(report.runs, one)) for one in shown]
    title = "What each node sent and received in training"
    return [table_html(rows, COLUMNS), choice_html("bytes-by-node", title, "run", bars)]


def _by_pair(runs: Runs, shown: list[Configuration]) -> list[str]:
    """Those that were measured come first: theory alone is what a page opens with where there is nothing else."""
    found = {one.label: matrix.measured(runs, one) for one in shown}
    known = [(one, pairs) for one in shown if (pairs := found[one.label]) is not None]
    ordered = [one for one, _ in known] + [one for one in shown if found[one.label] is None]
    charts = {one.label: matrix.chart(one, found[one.label]) for one in ordered}
    drawn = {
        label + ("" if found[label] or not known else " (theory alone)"): chart
        for label, chart in charts.items()
        if chart is not None
    }
    parts = []
    if known:
        rows = [matrix.table_row(one, pairs) for one, pairs in known]
        parts.append(bullets(words([pairs for _, pairs in known])))
        summary = f"Pairs measured beside theory: {len(rows)} of {len(shown)} configurations"
        parts.append(details(summary, table_html(rows, matrix.COLUMNS)))
    if drawn:
        if len(known) < len(shown):
            parts.append(paragraphs(_unmeasured(len(shown) - len(known), len(shown))))
        what = "theory and measured" if known else "from theory"
        title = f"Who sends to whom: payload of a round, {what}"
        parts.append(choice_html("who-to-whom", title, "run", drawn))
    return parts


def _unmeasured(missing: int, shown: int) -> str:
    which = "these runs" if missing == shown else f"{missing} of {shown} configurations"
    return (
        f"Theory alone for {which}: what each connection carried was not counted, by an older gradwire or on a kernel"
        " before Linux 4.19, or its two ends did not find each other."
    )


def _named(runs: Runs, of_runs: pd.DataFrame) -> pd.DataFrame:
    """With session and run instead of a number."""
    names = runs.table[["session", "run"]]
    return of_runs.merge(names, left_on="number", right_index=True).drop(columns="number")


def _nodes(runs: Runs, one: Configuration) -> pd.DataFrame:
    """Of its first run: its seeds send alike."""
    traffic = runs.traffic
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
