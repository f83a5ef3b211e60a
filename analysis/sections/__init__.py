"""The parts of the report, one file each, in the order of the page: Report -> Section, or None without data."""

from __future__ import annotations

from collections.abc import Callable

from analysis.page import Section
from analysis.sections import (
    accuracy,
    bandwidth,
    bottlenecks,
    consensus,
    correlation,
    epochs,
    gpus,
    over_time,
    overview,
    prediction,
    published,
    repeat,
    scaling,
    shards,
    steps,
    trust,
    who,
)
from analysis.sections.report import Report

SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    overview.section,
    accuracy.section,
    correlation.section,
    over_time.section,
    who.section,
    steps.section,
    epochs.section,
    bottlenecks.section,
    scaling.section,
    bandwidth.section,
    shards.section,
    gpus.section,
    consensus.section,
    published.section,
    prediction.section,
    trust.section,
    repeat.environment,
    repeat.commands,
)
