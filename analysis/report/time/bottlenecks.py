"""Who waits for whom: only where runs differ in who is slow, and in nothing else."""

from __future__ import annotations

from analysis.report.context import Report
from analysis.report.page import Section
from analysis.report.time import heat_map
from analysis.report.time.bottleneck_cases import as_table, find_studies


def section(report: Report) -> Section | None:
    studies = find_studies(report.runs)
    if not studies:
        return None
    return Section(
        "bottlenecks",
        "Who waits for whom",
        heat_map.section_body(studies),
        heat_map.NOTE,
        heat_map.STYLE,
        {"bottlenecks": as_table(studies)},
    )
