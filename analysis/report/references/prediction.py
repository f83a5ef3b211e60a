"""What would happen with more workers or other links, by the fitted cost model; and how it fares on these runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from html import escape
from statistics import median
from typing import Any

import pandas as pd

from analysis.predict import fitted
from analysis.predict.advice import advice, by_link, clusters, sweeps
from analysis.predict.cost_model import Cluster, Observation
from analysis.predict.crossovers import worker_counts
from analysis.predict.fitted import Fitted
from analysis.report.context import Report
from analysis.report.figures import axis, colour, log_seconds_axis, rounded
from analysis.report.overview.answers import measured_steps
from analysis.report.page import (
    Chart,
    Column,
    Section,
    Traces,
    bullets,
    chart_html,
    choice_html,
    details,
    paragraphs,
    table_html,
)
from analysis.tables.load import Runs
from cluster.observe.units import bytes_text, seconds_text

LEARNED = "Whether they learn as much, accuracy against bytes shows."
RATES_MBIT = (100, 1_000, 10_000)
MOST = 1024
WORKERS = 8
TABLE_WORKERS = (4, 16, 64, 256, 1024)
ORDERED_BY = 64
"""Workers: who is quickest with so many stands first."""
QUICKEST = 3
MOST_MODELS = 4
COLUMNS = [
    Column("strategy", "strategy", left=True),
    *(Column(f"{n} workers", f"step_{n}_s", seconds_text) for n in TABLE_WORKERS),
    Column(f"busiest node, {MOST} workers", "busiest_bytes", bytes_text),
    Column("outside of what was fitted", "outside", word=True),
]
OVERTAKINGS = [
    Column("from", "at", "{:g}".format),
    Column("is quicker", "faster", word=True),
    Column("than", "slower", word=True),
    Column("outside of what was fitted", "outside", word=True),
]
CHECKED = [
    Column("run", "run", left=True),
    Column("strategy", "strategy", word=True),
    Column("workers", "workers"),
    Column("link, Mbit/s", "rate_mbit", "{:g}".format),
    Column("measured step", "measured_s", seconds_text),
    Column("predicted", "predicted_s", seconds_text),
    Column("error", "error", "{:+.1%}".format),
    Column("outside of what was fitted", "outside", word=True),
]


def section(report: Report) -> Section | None:
    model = fitted.load()
    sizes = _sizes(report.runs)
    if not sizes:
        return None
    choices: dict[str, Chart] = {}
    rows: list[dict[str, Any]] = []
    folds = []
    said: list[str | tuple[str, str] | None] = []
    overtakings: list[dict[str, Any]] = []
    for name, size in sizes.items():
        for rate in RATES_MBIT:
            where = f"{name} ({bytes_text(size)}), links of {rate:,} Mbit"
            asked = [one for one in clusters(size, rate) if model.knows(one.strategy)]
            choices[where] = _chart(model, asked)
            found = _rows(model, where, asked)
            rows += found
            many = dataclasses.replace(asked[0], workers=ORDERED_BY)
            folds.append(_fold(where, found, model.outside(many)))
        overtakings += _overtakings(model, name, size)
        said.append(
            advice(
                model,
                name,
                size,
                RATES_MBIT[0],
                WORKERS,
                LEARNED,
                measured_steps(report, name, WORKERS),
            )
        )
        said.append(by_link(model, size, WORKERS))
    observations = fitted.observe_all(
        report.runs.folders[number] for number in report.runs.completed.index
    )
    checked = _checked(model, [one for one in observations if one.cluster.rate_mbit])
    title = "Predicted time of a step's exchange, by workers"
    parts = [
        paragraphs(_about(model)),
        bullets([text for text in said if text]),
        choice_html("predicted-exchange", title, "model and links", choices),
        *folds,
    ]
    tables = {"prediction": pd.DataFrame(rows)}
    if overtakings:
        parts.append("<h3>Who overtakes whom</h3>")
        for where in dict.fromkeys(one["where"] for one in overtakings):
            found = [one for one in overtakings if one["where"] == where]
            parts.append(details(f"{where} ({len(found)})", table_html(found, OVERTAKINGS)))
        tables["overtakings"] = pd.DataFrame(overtakings)
    if checked:
        parts.append("<h3>On this report's own runs</h3>")
        parts.append(paragraphs(_how_far(checked)))
        parts.append(chart_html(_checked_chart(checked)) + table_html(checked, CHECKED))
        tables["predicted_runs"] = pd.DataFrame(checked)
    return Section(
        "prediction", "What happens with more workers?", "\n".join(parts), NOTE, tables=tables
    )


NOTE = (
    "Cost model (analysis/predict/cost_model.py): messages one after the other, and the slower of what the busiest path must"
    " carry over the links' rate and what a node must copy and add up; constants fitted to measured runs of every"
    " strategy. Every node has its own cores and link here, and computing is left out: add yours, except for ddp, which"
    " hides behind it. local-sgd's step is an eighth of its exchange (8 local steps). Pairwise (passes 1) and local-sgd"
    " average less per step than the others, so a short step of theirs does not learn the same. For any other cluster:"
    " python -m analysis.predict."
)


def _about(model: Fitted) -> str:
    low, high = model.ranges["workers"]
    slow, quick = model.ranges["rate_mbit"]
    text = f"Fitted to runs with {low:g} to {high:g} workers on links of {slow:g} to {quick:g} Mbit, and free ones."
    if model.errors:
        found = model.errors
        text += (
            f" On {found.runs} other runs (other numbers of workers, rates and sizes) it missed a step by"
            f" {found.step_median:.1%} in the middle and {found.step_worst:.0%} at worst, and bytes by"
            f" {found.bytes_median:.3%}. What is far outside of that is an order of magnitude."
        )
    return text


def _sizes(runs: Runs) -> dict[str, int]:
    """Of the models that were exchanged."""
    table = runs.completed.dropna(subset=["model_bytes"])
    sizes = {str(row["model"]): int(row["model_bytes"]) for _, row in table.iterrows()}
    return dict(list(sizes.items())[:MOST_MODELS])


def _overtakings(model: Fitted, name: str, size: int) -> list[dict[str, Any]]:
    known = [one for one in clusters(size, RATES_MBIT[0], WORKERS) if model.knows(one.strategy)]
    where = {
        "workers": f"{name}, links of {RATES_MBIT[0]} Mbit, from so many workers on",
        "mbit": f"{name}, {WORKERS} workers, from so many Mbit on",
    }
    return [
        {
            "where": where[sweep.by],
            "at": crossing.at,
            "faster": crossing.faster,
            "slower": crossing.slower,
            "outside": outside or None,
        }
        for sweep in sweeps(model, known)
        for crossing, outside in sweep.overtakings
    ]


def _chart(model: Fitted, asked: Sequence[Cluster]) -> Chart:
    counts = worker_counts(MOST)
    traces: Traces = []
    every: list[float] = []
    for one in asked:
        times = [model.forecast(dataclasses.replace(one, workers=n)).step_s for n in counts]
        every += times
        traces.append(
            {
                "x": counts,
                "y": rounded(times, 4),
                "mode": "lines",
                "name": one.strategy,
                "legendgroup": one.strategy,
                "line": {"color": colour(one.strategy)},
                "hovertemplate": f"<b>{one.strategy}</b><br>%{{x}} workers: %{{y:.3s}}s<extra></extra>",
            }
        )
    ticks = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    layout = {
        "height": 440,
        "xaxis": axis("workers", type="log", tickvals=ticks, ticktext=[str(n) for n in ticks]),
        "yaxis": log_seconds_axis("predicted exchange of a step", every),
    }
    return Chart("", "", traces, layout)


def _rows(model: Fitted, where: str, asked: Sequence[Cluster]) -> list[dict[str, Any]]:
    rows = []
    for one in asked:
        row: dict[str, Any] = {"where": where, "strategy": one.strategy}
        for n in TABLE_WORKERS:
            found = model.forecast(dataclasses.replace(one, workers=n))
            row[f"step_{n}_s"] = float(f"{found.step_s:.5g}")
        most = dataclasses.replace(one, workers=MOST)
        row["busiest_bytes"] = round(model.forecast(most).busiest_bytes)
        row["outside"] = model.outside(most) or None
        rows.append(row)
    return sorted(rows, key=lambda row: float(row[f"step_{ORDERED_BY}_s"]))


def _fold(where: str, rows: list[dict[str, Any]], outside: str) -> str:
    """A table behind a line that already says who is quickest, and how far from what was measured that is."""
    first = ", ".join(
        f"{row['strategy']} {seconds_text(row[f'step_{ORDERED_BY}_s'])}" for row in rows[:QUICKEST]
    )
    beyond = " (orders of magnitude)" if "far " in outside else ""
    return details(
        f"{where}: quickest with {ORDERED_BY} workers {first}{beyond}", table_html(rows, COLUMNS)
    )


def _checked(model: Fitted, observations: Sequence[Observation]) -> list[dict[str, Any]]:
    rows = []
    for one in observations:
        if model.knows(one.cluster.strategy):
            predicted = model.forecast(one.cluster).step_s
            rows.append(
                {
                    "run": one.run,
                    "strategy": one.cluster.strategy,
                    "workers": one.cluster.workers,
                    "rate_mbit": one.cluster.rate_mbit,
                    "measured_s": one.step_s,
                    "predicted_s": float(f"{predicted:.5g}"),
                    "error": round(predicted / one.step_s - 1, 5),
                    "outside": model.outside(one.cluster) or None,
                }
            )
    return rows


def _how_far(rows: list[dict[str, Any]]) -> str:
    """Those far outside are counted apart."""
    said = [f"{len(rows)} runs on throttled links, to none of which the model was fitted."]
    far = [row for row in rows if "far" in (row["outside"] or "")]
    for words, members in (
        ("A step is missed by", [row for row in rows if row not in far]),
        ("Far outside of what was fitted, by", far),
    ):
        errors = [abs(row["error"]) for row in members]
        if errors:
            text = f"{words} {median(errors):.1%} in the middle and {max(errors):.0%} at worst"
            said.append(f"{text} ({len(members)} runs).")
    return " ".join(said)


def _checked_chart(rows: list[dict[str, Any]]) -> Chart:
    ends = [
        f(row[key] for row in rows for key in ("measured_s", "predicted_s")) for f in (min, max)
    ]
    traces: Traces = [
        {
            "x": ends,
            "y": ends,
            "mode": "lines",
            "name": "as measured",
            "line": {"color": "rgba(125,132,140,.6)", "dash": "dot"},
            "hoverinfo": "skip",
        }
    ]
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        members = [row for row in rows if row["strategy"] == strategy]
        traces.append(
            {
                "x": rounded(row["measured_s"] for row in members),
                "y": rounded(row["predicted_s"] for row in members),
                "text": [escape(row["run"]) for row in members],
                "mode": "markers",
                "name": strategy,
                "legendgroup": strategy,
                "marker": {"color": colour(strategy), "size": 9},
                "hovertemplate": "%{text}<br>measured %{x:.3s}s, predicted %{y:.3s}s<extra></extra>",
            }
        )
    layout = {
        "height": 360,
        "xaxis": log_seconds_axis("measured step", ends),
        "yaxis": log_seconds_axis("predicted step", ends),
    }
    return Chart(
        "predicted-and-measured", "Predicted and measured steps of these runs", traces, layout
    )
