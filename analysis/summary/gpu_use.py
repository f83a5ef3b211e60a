"""What the GPUs of a run did while it trained: from gpu_samples.csv to one entry per GPU. Pure, standard library only."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from cluster.spec.records import GpuSample

COUNTED = ("pcie_sent_bytes", "pcie_received_bytes", "nvlink_sent_bytes", "nvlink_received_bytes")
RATES = {"pcie_sent_bytes": "pcie_sent_rate", "pcie_received_bytes": "pcie_received_rate"}
"""What stands in for a counter that a driver does not have."""

Span = tuple[float, float]


def describe(
    samples: Sequence[GpuSample], events: dict[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """An entry per GPU: means and bytes over its node's training. Null is what the driver does not say,
    and all of them where no training was begun.

    `events` are those of each node, by its name.
    """
    series: dict[tuple[str, int], list[GpuSample]] = {}
    for sample in samples:
        series.setdefault((sample.node, sample.gpu), []).append(sample)
    return [
        {"node": node, "gpu": gpu, **_use(readings, train_spans(events.get(node, [])))}
        for (node, gpu), readings in series.items()
    ]


def train_spans(events: Sequence[dict[str, Any]]) -> list[Span]:
    """Training that was broken off lasted until the node's last word."""
    borders = [e for e in events if e["event"] in ("phase", "end")]
    return [
        (start["t"], end["t"])
        for start, end in itertools.pairwise([*borders, *events[-1:]])
        if start.get("phase") == "train" and start["t"] < end["t"]
    ]


def _use(samples: Sequence[GpuSample], spans: Sequence[Span]) -> dict[str, Any]:
    busy = _known(samples, "utilisation_percent", spans)
    memory = [v for v in (s.reading.memory_bytes for s in samples) if v is not None]
    use: dict[str, Any] = {
        "utilisation_mean": round(fmean(busy) / 100, 4) if busy else None,
        "memory_max_bytes": max(memory, default=None),
    }
    for name in COUNTED:
        use[name] = _counted(samples, name, spans)
    use["pcie_estimated"] = False
    for name, rate in RATES.items():
        if use[name] is None:
            use[name] = _estimated(samples, rate, spans)
            use["pcie_estimated"] |= use[name] is not None
    return use


def _known(samples: Sequence[GpuSample], name: str, spans: Sequence[Span]) -> list[int]:
    """The readings in training; all of them where it was too short for one; none where there was none."""
    values = [(s.t, value) for s in samples if (value := getattr(s.reading, name)) is not None]
    inside = [v for t, v in values if any(start <= t <= end for start, end in spans)]
    return inside or [v for _, v in values if spans]


def _counted(samples: Sequence[GpuSample], name: str, spans: Sequence[Span]) -> int | None:
    """Between two readings, the share of the time that was training; a counter that fell has begun again at 0."""
    readings = [(s.t, value) for s in samples if (value := getattr(s.reading, name)) is not None]
    if len(readings) < 2 or not spans:
        return None
    booked = 0.0
    for (since, before), (until, after) in itertools.pairwise(readings):
        trained = sum(max(0.0, min(until, end) - max(since, start)) for start, end in spans)
        if trained:
            booked += (after if after < before else after - before) * trained / (until - since)
    return round(booked)


def _estimated(samples: Sequence[GpuSample], rate: str, spans: Sequence[Span]) -> int | None:
    """The mean of the rates that were read, over the time of training."""
    rates = _known(samples, rate, spans)
    return round(fmean(rates) * sum(end - start for start, end in spans)) if rates else None
