"""Bottlenecks and stragglers: a heat map of nodes by case for each strategy, and the findings.

The heat map is made of HTML tables: its numbers can be read without a pointer, and it adapts to a
wide page and to a phone.
"""

import math
from collections.abc import Iterable

import pandas as pd

from analysis.report import page
from analysis.report.context import Report
from analysis.report.time.bottleneck_cases import Comparison, Node, Study, find_studies
from analysis.report.time.bottleneck_findings import case_name, describe, extremes, times
from cluster.observe.units import seconds_text

NOTE = (
    "Step: median of a node's steps without the first; where only some steps communicate (pairwise,"
    " local steps), of their mean over one cycle. Slow-down: relative to the same node without slow"
    " nodes. Bound: the least time of a step's exchange, the busiest link's bytes with headers over"
    " its rate. Waiting: from a node's arrival at an exchange to that of the last in its group; the"
    " rest of an exchange is transfer."
)
COLUMNS = [
    page.Column("strategy", "label", style="word"),
    page.Column("case", "case", style="word"),
    page.Column("node", "rank"),
    page.Column("site", "site", style="word"),
    page.Column("step", "step_median_s", seconds_text),
    page.Column("slow-down", "slow_down", times),
    page.Column("bound", "communication_bound_s", seconds_text),
    page.Column("computing", "compute_median_s", seconds_text),
    page.Column("exchange", "exposed_communication_median_s", seconds_text),
    page.Column("waiting", "waiting_median_s", seconds_text),
    page.Column("mostly for node", "waits_mostly_for"),
]
TABLE = (
    *("session", "run", "strategy", "bottleneck", "straggler", "rank", "is_slow", "step_median_s"),
    *("slow_down", "communication_bound_s", "compute_median_s", "exposed_communication_median_s"),
    *("waiting_median_s", "waits_mostly_for"),
)
"""Columns of tables/bottlenecks.csv, where a strategy is named by its label."""


def section(report: Report) -> page.Section | None:
    studies = find_studies(report.runs)
    if not studies:
        return None
    comparisons = [comparison for study in studies for comparison in study.comparisons]
    hottest = max(2.0, *(_ratio(node, c) for c in comparisons for node in _nodes(c)))
    body: list[page.Block] = [page.Fragment("heat_scale.html", {"hottest": times(hottest)})]
    several_sessions = len({study.session for study in studies}) > 1
    for study in studies:
        body += _study(study, hottest, several_sessions)
    tables = {"bottlenecks": as_table(studies)}
    return page.Section("bottlenecks", "Bottlenecks and stragglers", body, NOTE, tables)


def _study(study: Study, hottest: float, with_session: bool) -> list[page.Block]:
    def heat(node: Node, comparison: Comparison) -> float:
        """0 for the shortest step of the panel, 1 for the longest relative step of all panels."""
        return math.log(_ratio(node, comparison)) / math.log(hottest)

    words = {"case_name": case_name, "times": times, "seconds": seconds_text}
    return [
        page.Heading(f"{study.title}, {study.session}" if with_session else study.title),
        page.Fragment("heat_map.html", {"comparisons": study.comparisons, "heat": heat, **words}),
        page.Bullets([(f"{panel.label}:", describe(panel)) for panel in study.comparisons]),
        *page.texts(extremes(study)),
        page.Details(
            "All numbers, also in tables/bottlenecks.csv", [page.Table(_rows(study), COLUMNS)]
        ),
    ]


def _nodes(comparison: Comparison) -> list[Node]:
    return [node for case in comparison.cases for node in case.nodes]


def _ratio(node: Node, comparison: Comparison) -> float:
    """Of a step to the shortest in its panel."""
    return node.step_median_s / min(other.step_median_s for other in _nodes(comparison))


def _rows(study: Study) -> list[page.Row]:
    return [
        {
            "session": study.session,
            "run": case.run,
            "strategy": comparison.strategy,
            "label": comparison.label,
            "case": case_name(case, comparison.cases),
            "bottleneck": case.bottleneck,
            "straggler": case.straggler,
            "communication_bound_s": case.bound_s,
            **vars(node),
        }
        for comparison in study.comparisons
        for case in comparison.cases
        for node in case.nodes
    ]


def as_table(studies: Iterable[Study]) -> pd.DataFrame:
    """One row per node of every case."""
    rows = [row | {"strategy": row["label"]} for study in studies for row in _rows(study)]
    table = pd.DataFrame(rows, columns=list(TABLE)).astype({"waits_mostly_for": "Int64"})
    return table.assign(slow_down=table["slow_down"].astype(float).round(4))
