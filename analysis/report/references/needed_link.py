"""Which link is enough: the share of a step in which workers compute, against the links' rate.

Predicted curves of what these runs combined, and the runs' own points.
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from analysis.predict import fitted
from analysis.predict.need import UTILISATIONS, Need
from analysis.predict.observations import Observation, observe_all
from analysis.predict.simulation.nodes import Costs
from analysis.report import figures, page
from analysis.report.context import Report
from cluster.observe.units import bits_rate, bytes_text, percent_text, seconds_text

MOST_CHARTS, MOST_CURVES = 3, 8
RATES_MBIT = [10 ** (step / 6) for step in range(-6, 25)]
LEAST_COMPUTE_S = 0.001
COLUMNS = [
    page.Column("model, workers", "where", style="left"),
    page.Column("composition", "composition", style="left"),
    *(page.Column(percent_text(share, 0), f"at_{share}") for share in UTILISATIONS),
]
NOTE = (
    "Predicted for links that are equal, without bursts, and nodes with cores of their own"
    " (docs/prediction.md). Rates are those at which a worker computes for this share of a step; -"
    " where the host's costs alone take longer. For another model: python3 -m analysis.predict"
    " need."
)


def section(report: Report) -> page.Section | None:
    folders = [report.runs.folders[number] for number in report.runs.completed.index]
    groups: dict[tuple[int, int, float], list[Observation]] = {}
    for run in observe_all(folders):
        asked = run.cluster
        is_ours = asked.recorded is None and not asked.slow
        if is_ours and asked.rate_mbit and asked.compute_s > LEAST_COMPUTE_S:
            key = (asked.model_bytes, asked.workers, round(asked.compute_s, 2))
            groups.setdefault(key, []).append(run)
    costs = fitted.load().costs
    charts: dict[str, page.Chart] = {}
    rows: list[page.Row] = []
    for runs in list(groups.values())[:MOST_CHARTS]:
        asked = runs[0].cluster
        where = (
            f"{bytes_text(asked.model_bytes)}, {asked.workers} workers, computing"
            f" {seconds_text(asked.compute_s)}"
        )
        needs = _needs(runs, costs)
        charts[where] = _chart(needs, runs)
        rows += [_row(where, need) for need in needs.values()]
    if not rows:
        return None
    title = "Computing, as a share of a step, by link"
    body: list[page.Block] = [
        page.Choice("needed-link", title, "model and workers", charts),
        page.Table(rows, COLUMNS),
    ]
    tables = {"needed_link": pd.DataFrame(rows)}
    return page.Section("needed-link", "Which link is enough", body, NOTE, tables)


def _needs(runs: Sequence[Observation], costs: Costs) -> dict[str, Need]:
    """By label, of the compositions of these runs."""
    found: dict[str, Need] = {}
    for run in runs:
        ideal = replace(run.cluster, burst_bytes=(), cores=None, rounds=None, stragglers=(), seed=0)
        need = Need(ideal, costs)
        found.setdefault(need.label, need)
    return dict(list(found.items())[:MOST_CURVES])


def _row(where: str, need: Need) -> page.Row:
    rates = {share: need.rate_bit(share) for share in UTILISATIONS}
    texts = {f"at_{share}": bits_rate(rate / 8) if rate else "-" for share, rate in rates.items()}
    return {"where": where, "composition": need.label, **texts}


def _chart(needs: dict[str, Need], runs: Sequence[Observation]) -> page.Chart:
    traces: list[page.Trace] = []
    for label, need in needs.items():
        look = {"color": figures.colour(need.cluster.strategy)}
        shares = [100 * need.utilisation(rate * 1e6) for rate in RATES_MBIT]
        mine = [run for run in runs if Need(run.cluster, need.costs).label == label]
        template = figures.hover("<b>{}</b><br>%{x:.3g} Mbit/s: %{y:.1f} %", label)
        common = {"name": label, "legendgroup": label, "hovertemplate": template}
        traces.append(
            {
                **common,
                "x": figures.rounded(RATES_MBIT),
                "y": figures.rounded(shares),
                "mode": "lines",
                "line": look,
            }
        )
        traces.append(
            {
                **common,
                "x": [run.cluster.rate_mbit for run in mine],
                "y": figures.rounded(100 * run.cluster.compute_s / run.step_s for run in mine),
                "mode": "markers",
                "marker": look,
                "showlegend": False,
            }
        )
    x = figures.axis("link (Mbit/s)", type="log")
    y = figures.axis("computing, of a step (%)", range=[0, 100])
    return page.Chart(traces, 440, x, y)
