"""Prediction: its error on these runs first, then the exchange of a step with more workers.

Nothing is predicted beyond FAR (4) times what was fitted. `python3 -m analysis.predict` has more.
"""

import dataclasses
from collections.abc import Sequence
from statistics import median

import pandas as pd

from analysis.predict import fitted
from analysis.predict.fitted import FAR, Fitted
from analysis.predict.forecast import Cluster
from analysis.predict.observations import Observation, observe_all
from analysis.report import figures, page
from analysis.report.context import Report
from cluster.observe.units import bytes_text, percent_text, percents, seconds_text
from cluster.spec.exchange.strategies import IN_STEP, STRATEGIES
from cluster.spec.links import Link, parse_link

USUAL_MBIT = 100
"""Where no link of these runs was shaped to a rate that can be predicted."""
MOST_CHARTS = 6
MOST_CHECKED = 60
"""Runs that are simulated for the report."""
CHECKED = [
    page.Column("run", "run", style="left"),
    page.Column("strategy", "strategy", style="word"),
    page.Column("workers", "workers"),
    page.Column("link (Mbit/s)", "rate_mbit", "{:g}".format),
    page.Column("measured step", "measured_s", seconds_text),
    page.Column("predicted step", "predicted_s", seconds_text),
    page.Column("error", "error", percents(1, signed=True)),
    page.Column("error of the exchange", "exchange_error", percents(1, signed=True)),
    page.Column("outside the fitted range", "outside", style="word"),
]
NOTE = (
    "Simulated message by message (docs/prediction.md); what a message and a byte cost on a host is"
    " fitted to measured runs. Every node has its own cores and link here, and"
    " computing is excluded: add yours, except for ddp, which overlaps with it. A step of local-sgd"
    " is an eighth of its exchange (8 local steps). Pairwise (passes 1) and local-sgd average less"
    " per step than the others, so their shorter steps do not learn the same. For any other"
    " cluster: python3 -m analysis.predict."
)


def section(report: Report) -> page.Section | None:
    model = fitted.load()
    folders = [report.runs.folders[number] for number in report.runs.completed.index]
    observations = [run for run in observe_all(folders) if run.cluster.rate_mbit]
    checked = _checked(model, observations)
    body: list[page.Block] = []
    tables: dict[str, pd.DataFrame] = {}
    if checked:
        body += page.texts(_errors(checked))
        body += [_checked_chart(checked), page.Table(checked, CHECKED)]
        tables["predicted_runs"] = pd.DataFrame(checked)
    charts, rows = _charts(report, model)
    if charts:
        title = "Predicted time of a step's exchange, by workers"
        body += page.texts(_accuracy_of(model))
        body.append(page.Choice("predicted-exchange", title, "model and links", charts))
        tables["prediction"] = pd.DataFrame(rows)
    if not body:
        return None
    return page.Section("prediction", "Prediction for other clusters", body, NOTE, tables)


def _charts(report: Report, model: Fitted) -> tuple[dict[str, page.Chart], list[page.Row]]:
    """For the models and link rates of these runs, within FAR times what was fitted."""
    table = report.runs.completed.dropna(subset=["model_bytes"])
    links = [parse_link(str(link)).rate_bit / 1e6 for link in table["link"].dropna().unique()]
    rates = [rate for rate in links if _is_near(model, "rate_mbit", rate)] or [USUAL_MBIT]
    charts: dict[str, page.Chart] = {}
    rows: list[page.Row] = []
    sizes = {str(run["model"]): int(run["model_bytes"]) for _, run in table.iterrows()}
    for name, size in sizes.items():
        for rate in sorted(rates) if _is_near(model, "model_bytes", size) else ():
            where = f"{name} ({bytes_text(size)}), {rate:g} Mbit/s links"
            found = _predicted(model, size, rate)
            rows += [{"where": where, **row} for row in found]
            charts[where] = _chart(found)
    return dict(list(charts.items())[:MOST_CHARTS]), rows


def _is_near(model: Fitted, name: str, value: float) -> bool:
    low, high = model.ranges[name]
    return low / FAR <= value <= high * FAR


def _predicted(model: Fitted, size: int, rate_mbit: float) -> list[page.Row]:
    """Every strategy that the model knows, with its defaults, by workers."""
    rows: list[page.Row] = []
    for name in IN_STEP:
        facts = STRATEGIES[name]
        cluster = Cluster(
            strategy=name,
            workers=2,
            model_bytes=size,
            link=Link(round(rate_mbit * 1e6)),
            passes=1 if facts.has_passes else None,
            schedule="ring" if facts.has_passes else None,
            local_steps=facts.local_steps,
        )
        for workers in (2, 3, 4, 6, 8, 12, 16, 24, 32):
            if workers > model.ranges["workers"][1] * FAR:
                continue
            found = model.forecast(dataclasses.replace(cluster, workers=workers))
            rows.append(
                {"strategy": name, "workers": workers, "step_s": float(f"{found.step_s:.5g}")}
            )
    return rows


def _chart(rows: Sequence[page.Row]) -> page.Chart:
    traces: list[page.Trace] = [
        {
            "x": [row["workers"] for row in members],
            "y": figures.rounded((row["step_s"] for row in members), 4),
            "customdata": [seconds_text(row["step_s"]) for row in members],
            "mode": "lines",
            "name": strategy,
            "legendgroup": strategy,
            "line": {"color": figures.colour(strategy)},
            "hovertemplate": figures.hover("<b>{}</b><br>%{x} workers: %{customdata}", strategy),
        }
        for strategy, members in figures.by_strategy(rows).items()
    ]
    x = figures.whole_axis("workers", max(row["workers"] for row in rows))
    every = [row["step_s"] for row in rows]
    y = figures.log_seconds_axis("predicted exchange of a step", every)
    return page.Chart(traces, 440, x, y)


def _accuracy_of(model: Fitted) -> str:
    low, high = model.ranges["workers"]
    slow, quick = model.ranges["rate_mbit"]
    text = (
        f"Measured runs had {low:g} to {high:g} workers and links of {slow:g} to {quick:g} Mbit/s;"
        f" nothing is predicted beyond {FAR} times that."
    )
    if model.errors:
        found = model.errors
        text += (
            f" On {found.runs} runs it was not fitted to, median step-time error"
            f" {percent_text(found.step_median, 1)}, maximum {percent_text(found.step_worst, 0)};"
            f" of the exchange {percent_text(found.exchange_median, 1)} and"
            f" {percent_text(found.exchange_worst, 0)}; of bytes, median"
            f" {percent_text(found.bytes_median, 3)}."
        )
    return text


def _checked(model: Fitted, observations: Sequence[Observation]) -> list[page.Row]:
    rows: list[page.Row] = []
    for run in observations[:MOST_CHECKED]:
        predicted = model.forecast(run.cluster)
        exchange = predicted.exchange_s / run.exchange_s - 1 if run.exchange_s else None
        rows.append(
            {
                "run": run.run,
                "strategy": run.cluster.strategy,
                "workers": run.cluster.workers,
                "rate_mbit": run.cluster.rate_mbit,
                "measured_s": run.step_s,
                "predicted_s": float(f"{predicted.step_s:.5g}"),
                "error": round(predicted.step_s / run.step_s - 1, 5),
                "exchange_error": None if exchange is None else round(exchange, 5),
                "outside": model.outside(run.cluster) or None,
            }
        )
    return rows


def _errors(rows: list[page.Row]) -> str:
    """Runs far outside the fitted range are counted separately."""
    found = [f"{len(rows)} runs on throttled links, predicted from what was asked for."]
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
