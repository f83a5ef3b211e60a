"""From raw counters to bytes: spans between borders, restarts of a counter, sums. Pure functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from cluster.spec.records import PHASES, Counters, Sample, total

Event = dict[str, Any]


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


def borders(events: Iterable[Event]) -> list[Event]:
    """Of one node: the events that begin its phases, and its end."""
    return [e for e in events if e["event"] in ("phase", "end")]


def spans(events: Iterable[Event], phase: str) -> list[tuple[Event, Event]]:
    """The events that began and ended each of one node's stays in a phase."""
    return [
        (start, end)
        for start, end in itertools.pairwise(borders(events))
        if start["phase"] == phase
    ]


def by_phase(events: Iterable[Event]) -> dict[str, Counters]:
    """One node's traffic booked to phases, from its own readings at every border."""
    booked = dict.fromkeys(PHASES, Counters())
    for phase, _, traffic in phase_spans(events):
        booked[phase] = booked[phase] + traffic
    return booked


def phase_spans(events: Iterable[Event]) -> list[tuple[str, Event, Counters]]:
    """(phase, the event that began it, its traffic), in order of time."""
    return [
        (start["phase"], start, span([Counters(*start["counters"]), Counters(*end["counters"])]))
        for start, end in itertools.pairwise(borders(events))
    ]


def repeated(events: Sequence[Event], phase: str) -> int | None:
    """Bytes that one node's TCP sent again in a phase; None where it did not say."""
    if any("repeated" not in border for border in borders(events)):
        return None
    return sum(int(end["repeated"] - start["repeated"]) for start, end in spans(events, phase))


def enclosing(samples: Sequence[Sample], start: float, end: float) -> list[Sample]:
    """Of each source's readings of each node: the last before `start`, the first after `end`, and all between.

    A launcher talks before its workers begin and after they have ended, on the same interfaces.
    """
    first: dict[tuple[str, str], float] = {}
    last: dict[tuple[str, str], float] = {}
    for sample in samples:
        series = (sample.source, sample.node)
        if sample.t <= start or series not in first:
            first[series] = sample.t
        if sample.t >= end:
            last.setdefault(series, sample.t)
    return [
        sample
        for sample in samples
        if first[series := (sample.source, sample.node)] <= sample.t <= last.get(series, math.inf)
    ]


def by_source(samples: Iterable[Sample]) -> dict[str, dict[str, Counters]]:
    """source -> node -> traffic between the first and the last sample."""
    series: dict[str, dict[str, list[Counters]]] = {}
    for sample in samples:
        series.setdefault(sample.source, {}).setdefault(sample.node, []).append(sample.counters)
    return {
        source: {node: span(readings) for node, readings in nodes.items()}
        for source, nodes in series.items()
    }


def within(samples: Sequence[Sample], spans: Iterable[tuple[float, float]]) -> Counters:
    """Traffic of one node between two times, or several pairs of them, to the nearest sample before each."""
    if not samples:
        return Counters()

    def reading(t: float) -> Counters:
        before = [sample for sample in samples if sample.t <= t]
        return (before[-1] if before else samples[0]).counters

    return total(span([reading(start), reading(end)]) for start, end in spans)


def activity_sum(samples: Iterable[Sample], interval_s: float) -> int | None:
    """Sum of the cumulative counters, sent plus received, over all readings once an interval.

    Not a number of bytes: the metric that some published tables call network activity. It grows with
    the square of the time and counts each byte again at every later reading. Zero is each counter's
    first reading, as the published clusters counted from their containers' start.
    """
    series: dict[str, dict[str, list[Sample]]] = {}
    for sample in samples:
        series.setdefault(sample.source, {}).setdefault(sample.node, []).append(sample)
    nodes = series.get("docker") or series.get("kernel")
    if not nodes:
        return None
    return sum(_activity(readings, interval_s) for readings in nodes.values())


def _activity(readings: Sequence[Sample], interval_s: float) -> int:
    """One node's: the reading nearest to each tick counts, for readings keep a pace of their own."""
    gaps = [after.t - before.t for before, after in itertools.pairwise(readings)]
    slack = median(gaps) / 2 if gaps else 0.0
    activity, gone = 0, Counters()
    due = readings[0].t
    for before, sample in zip([readings[0], *readings], readings, strict=False):
        gone += span([before.counters, sample.counters])
        if sample.t >= due - slack:
            activity += gone.sent_bytes + gone.received_bytes
            due = max(due + interval_s, sample.t - slack)
    return activity
