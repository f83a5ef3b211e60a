"""How well the links are used."""

from __future__ import annotations

import contextlib
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import axis, bars
from analysis.report.page import Chart, Column, Section, chart_html, table_html
from analysis.tables.configurations import Configuration, mean
from analysis.theory.bandwidth import bandwidth
from cluster.observe.units import bits_rate, bytes_text, seconds_text
from cluster.spec.links import parse_link

COLUMNS = [
    Column("configuration", "configuration", left=True),
    Column("exchanged", "model_bytes", bytes_text),
    Column("time of an exchange", "exchange_s", seconds_text),
    Column("algorithm bandwidth", "algbw_bytes_per_s", bits_rate),
    Column("bus bandwidth", "busbw_bytes_per_s", bits_rate),
    Column("link", "link_bytes_per_s", bits_rate),
    Column("busiest link used", "utilisation", "{:.1%}".format),
]
NOTE = (
    "As nccl-tests defines them: algorithm bandwidth is S / t, bus bandwidth that times 2(n-1)/n for an all-reduce of"
    " S = M bytes and times (n-1)/n for an all-gather of S = n M. Every other strategy does the work of an all-reduce"
    " too, among all or in groups of passes + 1. The busiest link's use is the time its bytes need at the link's rate,"
    " headers included, over the time the exchange took; above 100 % is a link's burst, saved up in a pause: a message"
    " that is not much larger feels a faster link."
    " t is the exposed communication of a round, waiting for late workers included. ddp hides its own, so it has no row."
)


def section(report: Report) -> Section | None:
    rows = [row for one in report.configurations if (row := _row(report, one)) is not None]
    if not rows:
        return None
    parts = [table_html(rows, COLUMNS)]
    shaped = [row for row in rows if row["utilisation"] is not None]
    if shaped:
        parts.insert(0, chart_html(_chart(shaped)))
    return Section(
        "bandwidth",
        "How well the links are used",
        "\n".join(parts),
        NOTE,
        tables={"bandwidth": pd.DataFrame(rows)},
    )


def _row(report: Report, one: Configuration) -> dict[str, Any] | None:
    exposed = mean(report.runs, one, "exposed_communication_median_s")
    row = one.row
    if not exposed or pd.isna(row["rounds"]) or not row["rounds"] or row["workers"] < 2:
        return None
    exchange_s = exposed * float(row["steps"]) / float(row["rounds"])
    passes = None if pd.isna(row["passes"]) else int(row["passes"])
    found = bandwidth(
        one.strategy, int(row["workers"]), passes, int(row["model_bytes"]), exchange_s
    )
    bound = mean(report.runs, one, "communication_bound_s")
    link = None
    if not pd.isna(row["link"]):
        with contextlib.suppress(ValueError):  # written by another version
            link = parse_link(str(row["link"]))
    return {
        "configuration": one.label,
        "strategy": one.strategy,
        "model_bytes": int(row["model_bytes"]),
        "exchange_s": exchange_s,
        "algbw_bytes_per_s": found.algbw,
        "busbw_bytes_per_s": found.busbw,
        "link_bytes_per_s": None if link is None else link.rate_bit / 8,
        "utilisation": bound / exposed if bound else None,
    }


def _chart(rows: list[dict[str, Any]]) -> Chart:
    traces, names = bars(rows, "utilisation", "%{x:.1%}")
    layout = {
        "height": 110 + 24 * len(rows),
        "bargap": 0.3,
        "showlegend": False,
        "xaxis": axis("of what the busiest link can carry", tickformat=".0%"),
        "yaxis": names,
    }
    return Chart("link-use", "How much of the busiest link an exchange uses", traces, layout)
