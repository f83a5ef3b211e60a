"""Can the numbers be believed: counters against each other and against theory, links asked and verified."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import axis, colour, rounded
from analysis.report.overview.overview import labels_of
from analysis.report.overview.verdict import (
    COUNTERS_AGREE,
    SMALL_AGREES,
    THEORY_AGREES,
    compared,
    is_measured,
)
from analysis.report.page import Chart, Column, Section, Traces, chart_html, details, table_html
from cluster.observe.units import bytes_text, four_digits

LINKS_AGREE = 0.03

COLUMNS = [
    Column("run", "label", left=True),
    Column("verdict", "verdict", word=True),
    Column("worker's own counter", "counter_worker_bytes", bytes_text),
    Column("kernel", "kernel_off", "{:+.4%}".format),
    Column("Docker", "docker_off", "{:+.4%}".format),
    Column("received / sent", "received_over_sent", "{:.5f}".format),
    Column("sent / predicted", "sent_over_predicted", "{:.4f}".format),
    Column("sent again by TCP", "repeated_share", "{:.2%}".format),
]
LINKS = [
    Column("run", "label", left=True),
    Column("node", "node", word=True),
    Column("asked, Mbit/s", "target_mbit", four_digits),
    Column("sent", "sent_mbit", four_digits),
    Column("received", "received_mbit", four_digits),
    Column("error", "error", "{:+.2%}".format),
]
NOTE = (
    f"Held to: counters within {COUNTERS_AGREE:.0%} of each other; received within {COUNTERS_AGREE:.0%} of sent; payload"
    f" within {THEORY_AGREES:.0%} of theory ({SMALL_AGREES:.0%} for messages under 1 MB, which carry more framing; what"
    f" TCP sent again is not held against it); links within {LINKS_AGREE:.0%} of the asked rate, measured with real"
    " TCP before training. The worker reads its own interface at every border between phases; the kernel's counters"
    " are read from outside, and Docker's come through its API. A run with many small messages may be"
    " outside of theory and still be right: the library's own framing is measured and not predicted."
)


def section(report: Report) -> Section | None:
    table = report.runs.completed
    table = table[[is_measured(run) for _, run in table.iterrows()]]
    if table.empty:
        return None
    labels = labels_of(report.runs.table)
    rows = [{"label": f"{n}\u2002{labels[n]}", **compared(run)} for n, run in table.iterrows()]
    parts = [chart_html(_chart(rows)), table_html(rows, COLUMNS)]
    which = table[["session", "run"]].to_dict("records")
    frame = pd.DataFrame([one | row for one, row in zip(which, rows, strict=True)])
    tables = {"trust": frame}
    links = report.runs.links
    links = links[links["number"].isin(table.index)]
    if not links.empty:
        entries: list[dict[str, Any]] = [
            {
                "label": f"{link['number']}\u2002{labels[link['number']]}",
                "strategy": table.loc[link["number"], "strategy"],
                **{column.key: link[column.key] for column in LINKS[1:]},
            }
            for _, link in links.iterrows()
        ]
        worst = links["error"].abs().max()
        summary = f"Links: {len(links)} verified before training, at most {worst:.2%} off"
        parts.append(details(summary, table_html(entries, LINKS)))
        tables["links"] = pd.DataFrame(entries)
    return Section("trust", "Can the numbers be trusted?", "\n".join(parts), NOTE, tables=tables)


def _chart(rows: list[dict[str, Any]]) -> Chart:
    traces: Traces = [
        {
            "x": [
                escape(r["label"].partition("\u2002")[0]) for r in rows if r["strategy"] == strategy
            ],
            "y": rounded(
                (None if pd.isna(r["sent_over_predicted"]) else r["sent_over_predicted"])
                for r in rows
                if r["strategy"] == strategy
            ),
            "text": [escape(r["label"]) for r in rows if r["strategy"] == strategy],
            "mode": "markers",
            "name": strategy,
            "legendgroup": strategy,
            "marker": {"color": colour(strategy), "size": 9},
            "hovertemplate": "%{text}: %{y:.4f}<extra></extra>",
        }
        for strategy in dict.fromkeys(row["strategy"] for row in rows)
    ]
    order = [r["label"].partition("\u2002")[0] for r in rows]
    layout = {
        "height": 320,
        "xaxis": axis("run", type="category", categoryorder="array", categoryarray=order),
        "yaxis": axis("sent / predicted", tickformat=".3f"),
    }
    return Chart(
        "measured-over-predicted", "Measured over predicted bytes, run by run", traces, layout
    )
