"""Prediction: step times for more workers and other links, and the model's error on these runs."""

import dataclasses
from collections.abc import Iterator, Sequence
from statistics import median

import pandas as pd

from analysis.predict import fitted
from analysis.predict.advice import advice, by_link, clusters
from analysis.predict.cost_model import Cluster
from analysis.predict.crossovers import sweeps, worker_counts
from analysis.predict.fitted import Fitted
from analysis.predict.observations import Observation, observe_all
from analysis.report import figures, page
from analysis.report.context import Report
from analysis.report.overview.answers import measured_steps
from analysis.tables.configurations import grouped
from analysis.tables.load import Runs
from cluster.observe.units import bytes_text, percent_text, percents, seconds_text

LEARNED = "For their accuracy see accuracy against bytes."
RATES_MBIT = (100, 1_000, 10_000)
MOST = 1024
WORKERS = 8
TABLE_WORKERS = (4, 16, 64, 256, 1024)
TICKS = [2**power for power in range(1, 11)]
ORDERED_BY = 64
"""Workers: rows are ordered by the step with so many."""
QUICKEST = 3
MOST_MODELS = 4
OUTSIDE = page.Column("outside the fitted range", "outside", style="word")
COLUMNS = [
    page.Column("strategy", "strategy", style="left"),
    *(page.Column(f"{n} workers", f"step_{n}_s", seconds_text) for n in TABLE_WORKERS),
    page.Column(f"busiest node, {MOST} workers", "busiest_bytes", bytes_text),
    OUTSIDE,
]
CROSSOVERS = [
    page.Column("from", "at", "{:g}".format),
    page.Column("faster", "faster", style="word"),
    page.Column("slower", "slower", style="word"),
    OUTSIDE,
]
CHECKED = [
    page.Column("run", "run", style="left"),
    page.Column("strategy", "strategy", style="word"),
    page.Column("workers", "workers"),
    page.Column("link (Mbit/s)", "rate_mbit", "{:g}".format),
    page.Column("measured step", "measured_s", seconds_text),
    page.Column("predicted step", "predicted_s", seconds_text),
    page.Column("error", "error", percents(1, signed=True)),
    OUTSIDE,
]
NOTE = (
    "Cost model (analysis/predict/cost_model.py): latency of consecutive messages, plus the larger"
    " of the busiest path's bytes over the links' rate and a node's time to copy and add; constants"
    " fitted to measured runs of every strategy. Every node has its own cores and link here, and"
    " computing is excluded: add yours, except for ddp, which overlaps with it. A step of local-sgd"
    " is an eighth of its exchange (8 local steps). Pairwise (passes 1) and local-sgd average less"
    " per step than the others, so their shorter steps do not learn the same. For any other"
    " cluster: python3 -m analysis.predict."
)


def section(report: Report) -> page.Section | None:
    model = fitted.load()
    sizes = _sizes(report.runs)
    if not sizes:
        return None
    charts: dict[str, page.Chart] = {}
    rows: list[page.Row] = []
    folds: list[page.Block] = []
    for name, size in sizes.items():
        for rate in RATES_MBIT:
            where = f"{name} ({bytes_text(size)}), {rate:,} Mbit/s links"
            known = clusters(model, size, rate)
            charts[where] = _chart(model, known)
            found = _rows(model, where, known)
            rows += found
            folds.append(_fold(model, where, found, known[0]))
    title = "Predicted time of a step's exchange, by workers"
    body = [
        *page.texts(_accuracy_of(model)),
        page.Bullets(list(_findings(report, model, sizes))),
        page.Choice("predicted-exchange", title, "model and links", charts),
        *folds,
    ]
    tables = {"prediction": pd.DataFrame(rows)}
    crossings = [row for name, size in sizes.items() for row in _crossovers(model, name, size)]
    if crossings:
        body.append(page.Heading("Crossovers"))
        for where, members in grouped(crossings, lambda row: str(row["where"])).items():
            table = page.Table(members, CROSSOVERS)
            body.append(page.Details(f"{where} ({len(members)})", [table]))
        tables["crossovers"] = pd.DataFrame(crossings)
    folders = [report.runs.folders[number] for number in report.runs.completed.index]
    observations = [run for run in observe_all(folders) if run.cluster.rate_mbit]
    checked = _checked(model, observations)
    if checked:
        body += [
            page.Heading("Predicted and measured steps of these runs"),
            *page.texts(_errors(checked)),
        ]
        body += [_checked_chart(checked), page.Table(checked, CHECKED)]
        tables["predicted_runs"] = pd.DataFrame(checked)
    return page.Section("prediction", "Prediction for other clusters", body, NOTE, tables)


def _findings(
    report: Report, model: Fitted, sizes: dict[str, int]
) -> Iterator[str | tuple[str, str]]:
    for name, size in sizes.items():
        steps = measured_steps(report, name, WORKERS)
        if found := advice(model, name, size, RATES_MBIT[0], WORKERS, LEARNED, steps):
            yield found
        if text := by_link(model, size, WORKERS):
            yield f"Fastest strategy for {name} by link rate:", text


def _accuracy_of(model: Fitted) -> str:
    low, high = model.ranges["workers"]
    slow, quick = model.ranges["rate_mbit"]
    text = (
        f"Fitted to runs with {low:g} to {high:g} workers on links of {slow:g} to {quick:g} Mbit/s"
        " and on unlimited links."
    )
    if model.errors:
        found = model.errors
        text += (
            f" On {found.runs} runs it was not fitted to (other workers, rates and sizes), median"
            f" step-time error {percent_text(found.step_median, 1)}, maximum"
            f" {percent_text(found.step_worst, 0)}; median error of bytes"
            f" {percent_text(found.bytes_median, 3)}. Far outside the fitted range, predictions are"
            " orders of magnitude."
        )
    return text


def _sizes(runs: Runs) -> dict[str, int]:
    """Bytes of the models that were trained."""
    table = runs.completed.dropna(subset=["model_bytes"])
    sizes = {str(row["model"]): int(row["model_bytes"]) for _, row in table.iterrows()}
    return dict(list(sizes.items())[:MOST_MODELS])


def _crossovers(model: Fitted, name: str, size: int) -> list[page.Row]:
    where = {
        "workers": f"{name}, {RATES_MBIT[0]} Mbit/s links, by workers",
        "mbit": f"{name}, {WORKERS} workers, by link rate (Mbit/s)",
    }
    return [
        {
            "where": where[sweep.by],
            "at": crossing.at,
            "faster": crossing.faster,
            "slower": crossing.slower,
            "outside": outside or None,
        }
        for sweep in sweeps(model, clusters(model, size, RATES_MBIT[0], WORKERS))
        for crossing, outside in sweep.crossovers
    ]


def _chart(model: Fitted, known: Sequence[Cluster]) -> page.Chart:
    counts = worker_counts(MOST)
    steps = {
        cluster.strategy: [
            model.forecast(dataclasses.replace(cluster, workers=n)).step_s for n in counts
        ]
        for cluster in known
    }
    traces: list[page.Trace] = [
        {
            "x": counts,
            "y": figures.rounded(times, 4),
            "customdata": [seconds_text(time) for time in times],
            "mode": "lines",
            "name": strategy,
            "legendgroup": strategy,
            "line": {"color": figures.colour(strategy)},
            "hovertemplate": figures.hover("<b>{}</b><br>%{x} workers: %{customdata}", strategy),
        }
        for strategy, times in steps.items()
    ]
    every = [time for times in steps.values() for time in times]
    x = figures.axis("workers", type="log", tickvals=TICKS, ticktext=[str(n) for n in TICKS])
    y = figures.log_seconds_axis("predicted exchange of a step", every)
    return page.Chart(traces, 440, x, y)


def _rows(model: Fitted, where: str, known: Sequence[Cluster]) -> list[page.Row]:
    rows = []
    for cluster in known:
        row: page.Row = {"where": where, "strategy": cluster.strategy}
        for n in TABLE_WORKERS:
            found = model.forecast(dataclasses.replace(cluster, workers=n))
            row[f"step_{n}_s"] = float(f"{found.step_s:.5g}")
        most = dataclasses.replace(cluster, workers=MOST)
        row["busiest_bytes"] = round(model.forecast(most).busiest_bytes)
        row["outside"] = model.outside(most) or None
        rows.append(row)
    return sorted(rows, key=lambda row: float(row[f"step_{ORDERED_BY}_s"]))


def _fold(model: Fitted, where: str, rows: list[page.Row], cluster: Cluster) -> page.Details:
    """A table below a line that names the fastest strategies."""
    first = ", ".join(
        f"{row['strategy']} {seconds_text(row[f'step_{ORDERED_BY}_s'])}" for row in rows[:QUICKEST]
    )
    outside = model.outside(dataclasses.replace(cluster, workers=ORDERED_BY))
    far = " (orders of magnitude)" if "far " in outside else ""
    summary = f"{where}: fastest with {ORDERED_BY} workers {first}{far}"
    return page.Details(summary, [page.Table(rows, COLUMNS)])


def _checked(model: Fitted, observations: Sequence[Observation]) -> list[page.Row]:
    rows: list[page.Row] = []
    for run in observations:
        if model.knows(run.cluster.strategy):
            predicted = model.forecast(run.cluster).step_s
            rows.append(
                {
                    "run": run.run,
                    "strategy": run.cluster.strategy,
                    "workers": run.cluster.workers,
                    "rate_mbit": run.cluster.rate_mbit,
                    "measured_s": run.step_s,
                    "predicted_s": float(f"{predicted:.5g}"),
                    "error": round(predicted / run.step_s - 1, 5),
                    "outside": model.outside(run.cluster) or None,
                }
            )
    return rows


def _errors(rows: list[page.Row]) -> str:
    """Runs far outside the fitted range are counted separately."""
    found = [f"{len(rows)} runs on throttled links, none of which the model was fitted to."]
    far = [row for row in rows if "far" in (row["outside"] or "")]
    near = [row for row in rows if row not in far]
    for where, members in (("", near), (" far outside the fitted range", far)):
        errors = [abs(row["error"]) for row in members]
        if errors:
            found.append(
                f"Median step-time error{where} {percent_text(median(errors), 1)}, maximum"
                f" {percent_text(max(errors), 0)} ({len(members)} runs)."
            )
    return " ".join(found)


def _checked_chart(rows: list[page.Row]) -> page.Chart:
    every = [row[key] for row in rows for key in ("measured_s", "predicted_s")]
    ends = [min(every), max(every)]
    traces = [figures.reference_line(ends, ends, "predicted = measured")]
    traces += figures.points(
        [row | {"label": row["run"]} for row in rows],
        lambda members: figures.rounded(row["measured_s"] for row in members),
        lambda members: figures.rounded(row["predicted_s"] for row in members),
        lambda row: (
            f"measured {seconds_text(row['measured_s'])},"
            f" predicted {seconds_text(row['predicted_s'])}"
        ),
    )
    x, y = (figures.log_seconds_axis(f"{which} step", ends) for which in ("measured", "predicted"))
    title = "Predicted and measured step"
    return page.Chart(traces, 360, x, y, name="predicted-and-measured", title=title)
