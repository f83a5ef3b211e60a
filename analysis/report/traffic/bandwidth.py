"""Use of the links: algorithm and bus bandwidth as nccl-tests defines them, and utilisation.

NOTE has the definitions. Bus bandwidth does not depend on n where links are used as well as they
can be, so it compares with what a link can carry; a star's low one says how much worse than a ring
it uses the links. Which operation's result a strategy delivers is in its record.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import bar_chart, percent_scale
from analysis.report.page import Block, Chart, Column, Row, Section, Table
from analysis.tables.configurations import Configuration
from cluster.observe.units import bits_rate, bytes_text, percents, seconds_text
from cluster.spec.exchange.strategies import facts_of
from cluster.spec.links import parse_link

COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("model", "model_bytes", bytes_text),
    Column("time of an exchange", "exchange_s", seconds_text),
    Column("algorithm bandwidth", "algbw_bytes_per_s", bits_rate, from_times=True),
    Column("bus bandwidth", "busbw_bytes_per_s", bits_rate, from_times=True),
    Column("link", "link_bytes_per_s", bits_rate),
    Column("busiest link's utilisation", "utilisation", percents(1), from_times=True),
]
NOTE = (
    "As defined by nccl-tests: algorithm bandwidth is S / t; bus bandwidth is that times 2(n-1)/n"
    " for an all-reduce of S = M bytes, and times (n-1)/n for an all-gather of S = n M. All other"
    " strategies do the work of an all-reduce, among all workers or in groups of passes + 1."
    " Utilisation of the busiest link: the time its bytes with headers need at the link's rate,"
    " over the time of the exchange; above 100 % a message used the link's burst. t is the exposed"
    " communication of a round, waiting for late workers included. ddp overlaps its exchange, so it"
    " has no row."
)


def section(report: Report) -> Section | None:
    rows = [
        row | {"contended": report.is_contended(config)}
        for config in report.configurations
        if (row := _row(config)) is not None
    ]
    if not rows:
        return None
    shaped = [row for row in rows if row["utilisation"] is not None]
    drawn = {row["configuration"] for row in shaped}
    why = report.why_contended(c for c in report.configurations if c.label in drawn)
    body: list[Block] = [replace(_chart(shaped), contended=why)] if shaped else []
    body.append(Table(rows, COLUMNS))
    frame = pd.DataFrame(rows).drop(columns="contended")
    return Section("bandwidth", "Use of the links", body, NOTE, {"bandwidth": frame})


class Bandwidth(NamedTuple):
    """Bytes a second."""

    algbw: float
    busbw: float


def bandwidth(
    strategy: str, workers: int, passes: int | None, model_bytes: int, time_s: float
) -> Bandwidth:
    ranks = workers if passes is None else min(passes + 1, workers)
    if facts_of(strategy).collective == "all-gather":
        algbw = ranks * model_bytes / time_s
        return Bandwidth(algbw, algbw * (ranks - 1) / ranks)
    algbw = model_bytes / time_s
    return Bandwidth(algbw, algbw * 2 * (ranks - 1) / ranks)


def exchange(run: pd.Series[Any], exposed_s: float | None) -> tuple[float, Bandwidth] | None:
    """Seconds of a round's exchange, and its bandwidth; None where a run has no such exchange."""
    if not exposed_s or pd.isna(exposed_s) or run["workers"] < 2:
        return None
    if pd.isna(run["rounds"]) or not run["rounds"]:
        return None
    exchange_s = exposed_s * float(run["steps"]) / float(run["rounds"])
    passes = None if pd.isna(run["passes"]) else int(run["passes"])
    workers, model_bytes = int(run["workers"]), int(run["model_bytes"])
    return exchange_s, bandwidth(str(run["strategy"]), workers, passes, model_bytes, exchange_s)


def _row(configuration: Configuration) -> Row | None:
    row = configuration.row
    exposed = configuration.mean("exposed_communication_median_s")
    found = exchange(row, exposed)
    if not found or not exposed:
        return None
    exchange_s, rates = found
    bound = configuration.mean("communication_bound_s")
    link = None
    if not pd.isna(row["link"]):
        with contextlib.suppress(ValueError):  # written by another version
            link = parse_link(str(row["link"]))
    return {
        "configuration": configuration.label,
        "strategy": configuration.strategy,
        "model_bytes": int(row["model_bytes"]),
        "exchange_s": exchange_s,
        "algbw_bytes_per_s": rates.algbw,
        "busbw_bytes_per_s": rates.busbw,
        "link_bytes_per_s": None if link is None else link.rate_bit / 8,
        "utilisation": bound / exposed if bound else None,
    }


def _chart(rows: list[Row]) -> Chart:
    scale = percent_scale("utilisation of the busiest link")
    title = "Utilisation of the busiest link in an exchange"
    return bar_chart("link-use", title, rows, "utilisation", scale, percents(1))
