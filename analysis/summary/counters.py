"""From raw counters to bytes: between phase boundaries, across restarts of a counter. Pure."""

import itertools
import math
from collections.abc import Iterable, Sequence
from statistics import median

from analysis.summary.node_log import NodeLog
from cluster.spec.documents.records import PHASES, Counters, Sample, total


def span(readings: Sequence[Counters]) -> Counters:
    """What went by between the first and the last of some cumulative readings.

    A counter that fell has restarted at 0 in between: what it shows then is all new.
    """
    increments = [
        after
        if after.sent_bytes < before.sent_bytes or after.received_bytes < before.received_bytes
        else after - before
        for before, after in itertools.pairwise(readings)
    ]
    return total(increments)


def by_phase(log: NodeLog) -> dict[str, Counters]:
    """One node's traffic booked to phases, from its own readings at every phase boundary."""
    booked = dict.fromkeys(PHASES, Counters())
    for start, end in log.phase_intervals:
        if start.phase in booked:
            booked[start.phase] += span([start.counters, end.counters])
    return booked


def retransmitted(log: NodeLog, phase: str) -> int | None:
    """Bytes that one node's TCP sent again in a phase; None where the node did not count them."""
    if any(event.retransmitted_bytes is None for span in log.phase_intervals for event in span):
        return None
    return sum(
        (end.retransmitted_bytes or 0) - (start.retransmitted_bytes or 0)
        for start, end in log.spans(phase)
    )


def enclosing(samples: Sequence[Sample], start: float, end: float) -> list[Sample]:
    """Of each source's readings of each node: the last before `start`, the first that began after
    `end`, all between.

    A launcher has control traffic on the same interfaces before its workers begin and after they
    end. A reading has the time at which it was complete; with Docker it may take long, and began
    after the one before it.
    """
    first: dict[tuple[str, str], float] = {}
    last: dict[tuple[str, str], float] = {}
    previous: dict[tuple[str, str], float] = {}
    for sample in samples:
        series = (sample.source, sample.node)
        if sample.t <= start or series not in first:
            first[series] = sample.t
        if previous.get(series, -math.inf) >= end:
            last.setdefault(series, sample.t)
        previous[series] = sample.t
    return [
        sample
        for sample in samples
        if first[series := (sample.source, sample.node)] <= sample.t <= last.get(series, math.inf)
    ]


def _series(samples: Iterable[Sample]) -> dict[str, dict[str, list[Sample]]]:
    """source -> node -> its samples."""
    series: dict[str, dict[str, list[Sample]]] = {}
    for sample in samples:
        series.setdefault(sample.source, {}).setdefault(sample.node, []).append(sample)
    return series


def by_source(samples: Iterable[Sample]) -> dict[str, dict[str, Counters]]:
    """source -> node -> traffic between the first and the last sample."""
    return {
        source: {node: span([s.counters for s in found]) for node, found in nodes.items()}
        for source, nodes in _series(samples).items()
    }


def within(samples: Sequence[Sample], spans: Iterable[tuple[float, float]]) -> Counters:
    """Traffic of one node in spans of time, by the last sample before each begin and end."""
    if not samples:
        return Counters()

    def reading(t: float) -> Counters:
        before = [sample for sample in samples if sample.t <= t]
        return (before[-1] if before else samples[0]).counters

    return total(span([reading(start), reading(end)]) for start, end in spans)


def activity_sum(samples: Iterable[Sample], interval_s: float) -> int | None:
    """Sum of the cumulative counters, sent plus received, over all readings once an interval.

    Not a number of bytes: the metric that some published tables call network activity. It grows
    with the square of the time and counts each byte again at every later reading. Zero is each
    counter's first reading, as the published clusters counted from their containers' start.
    """
    series = _series(samples)
    nodes = series.get("docker") or series.get("kernel")
    if not nodes:
        return None
    return sum(_activity(readings, interval_s) for readings in nodes.values())


def _activity(readings: Sequence[Sample], interval_s: float) -> int:
    """One node's. Readings are not exactly periodic: the nearest to each tick counts."""
    gaps = [after.t - before.t for before, after in itertools.pairwise(readings)]
    slack = median(gaps) / 2 if gaps else 0.0
    activity, passed = 0, Counters()
    due = readings[0].t
    for before, sample in zip([readings[0], *readings], readings, strict=False):
        passed += span([before.counters, sample.counters])
        if sample.t >= due - slack:
            activity += passed.sent_bytes + passed.received_bytes
            due = max(due + interval_s, sample.t - slack)
    return activity
