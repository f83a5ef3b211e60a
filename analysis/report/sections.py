"""The sections of the report, in the order of the page: Report -> Section, or None without data."""

from collections.abc import Callable

from analysis.report.accuracy import accuracy, consensus, correlation, shards
from analysis.report.context import Report
from analysis.report.overview import environment, overview, repeat, trust
from analysis.report.page import Section
from analysis.report.references import prediction, published
from analysis.report.time import bottlenecks, epochs, scaling, steps
from analysis.report.traffic import bandwidth, by_node, gpus, over_time

SECTIONS: tuple[Callable[[Report], Section | None], ...] = (
    overview.section,
    accuracy.section,
    correlation.section,
    over_time.section,
    by_node.section,
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
    environment.section,
    repeat.section,
)
