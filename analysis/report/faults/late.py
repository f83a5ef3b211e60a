"""Who came last to exchanges, and why: the order of arrival, which an equal step time hides."""

from __future__ import annotations

import pandas as pd

from analysis.report.context import Report
from analysis.report.page import Column, Row, Section, Table
from analysis.tables.configurations import Configuration
from cluster.observe.units import percents, seconds_text
from cluster.spec.arrivals import WORDS

NOTED = 0.1
"""A worker that is last in fewer exchanges is not worth a row where others are last in more."""
COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("node", "node", style="word"),
    Column("came last", "share", percents(0), from_times=True),
    Column("later than the median worker", "late_s", seconds_text, from_times=True),
    Column("mostly since", "cause", style="left"),
    *(Column(name, name, percents(0)) for name in WORDS),
]
NOTE = (
    "A worker is ready to exchange when it has computed. It came last where it was ready at least"
    " 5 % of a step, and 2 ms, later than the median worker. Computing: it computed longer. Core:"
    " other processes had its core for most of that. Link: its exchange before took it longer than"
    " others, though it had come last to that, too; the slow link is its own or, in a ring, its"
    " neighbour's. Another: in the exchange before it had waited for another worker."
)


def section(report: Report) -> Section | None:
    rows = [row for config in report.configurations for row in _rows(report, config)]
    if not rows:
        return None
    table = pd.DataFrame(rows)[[column.key for column in COLUMNS]]
    return Section("late", "Who came last", [Table(rows, COLUMNS)], NOTE, {"arrivals": table})


def _rows(report: Report, config: Configuration) -> list[Row]:
    """Every node that was last in a good part of the exchanges, seeds together."""
    mine = config.rows(report.runs.arrivals)
    rows: list[Row] = []
    for (_, node), group in mine.groupby(["rank", "node"], sort=True):
        last, exchanges = int(group["last"].sum()), int(group["exchanges"].sum())
        if not exchanges or last / exchanges < NOTED:
            continue
        causes = {name: int(group[name].sum()) for name in WORDS}
        rows.append(
            {
                "configuration": config.label,
                "strategy": config.strategy,
                "contended": report.is_contended(config),
                "node": str(node),
                "share": last / exchanges,
                "late_s": float(group["late_median_s"].dropna().astype(float).median()),
                "cause": WORDS[max(causes, key=lambda name: causes[name])],
                **{name: count / last for name, count in causes.items()},
            }
        )
    return rows
