"""The sections of the report, in the order of the page, and the parts that each is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from analysis.report.accuracy import (
    accuracy,
    consensus,
    correlation,
    emulated_time,
    learning,
    shards,
)
from analysis.report.context import Report
from analysis.report.faults import costs, late
from analysis.report.overview import all_runs, environment, overview, repeat, trust
from analysis.report.page import Section
from analysis.report.references import needed_link, prediction, published
from analysis.report.time import bottlenecks, epochs, pace, scaling, steps
from analysis.report.traffic import bandwidth, by_node, gpus, over_time

Make = Callable[[Report], Section | None]
"""None without data."""


@dataclass(frozen=True)
class Group:
    """One section of the page. Its first part has its title; the others have their own."""

    name: str
    title: str
    parts: Sequence[Make]
    folded: Sequence[Make] = ()


GROUPS = (
    Group("answers", "Answers", [overview.section]),
    Group("published", "Published and lab tables", [published.section]),
    Group("results", "Results", [overview.results]),
    Group(
        "accuracy",
        "Accuracy against bytes",
        [accuracy.section],
        [emulated_time.section, correlation.section],
    ),
    Group("learning", "Learning curves", [learning.section], [consensus.section, shards.section]),
    Group("faults", "Faults", [costs.section]),
    Group(
        "time",
        "Time",
        [bottlenecks.section, pace.section, steps.section, late.section],
        [epochs.section],
    ),
    Group("traffic", "Traffic matrix", [by_node.section], [over_time.section]),
    Group("links", "Links", [bandwidth.section, gpus.section]),
    Group("scaling", "Scaling", [scaling.section]),
    Group("trust", "Trust", [trust.section]),
    Group(
        "appendix",
        "Appendix",
        [],
        [
            needed_link.section,
            prediction.section,
            all_runs.section,
            environment.section,
            repeat.section,
        ],
    ),
)


def make_sections(report: Report) -> list[Section]:
    """Those that have data."""
    found = [_make(group, report) for group in GROUPS]
    return [section for section in found if section is not None]


def _make(group: Group, report: Report) -> Section | None:
    parts = [part for make in group.parts if (part := make(report)) is not None]
    folded = [part for make in group.folded if (part := make(report)) is not None]
    if not parts and not folded:
        return None
    first = parts.pop(0) if parts and len(group.parts) == 1 else Section("", "", ())
    inside = [*parts, *(replace(part, is_folded=True) for part in folded)]
    return replace(first, name=group.name, title=group.title, parts=inside)
