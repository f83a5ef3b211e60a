"""The use of GPUs in training: from gpu_samples.csv to one entry per GPU. Pure."""

import itertools
from collections.abc import Sequence
from statistics import fmean

from analysis.summary.node_log import NodeLog
from cluster.spec.documents.events import End, Phase
from cluster.spec.documents.records import GpuSample
from cluster.spec.documents.summary import GpuUse

COUNTED = ("pcie_sent_bytes", "pcie_received_bytes", "nvlink_sent_bytes", "nvlink_received_bytes")
RATES = {"pcie_sent_bytes": "pcie_sent_rate", "pcie_received_bytes": "pcie_received_rate"}
"""What stands in for a counter that a driver does not have."""

Span = tuple[float, float]


def describe(samples: Sequence[GpuSample], logs: dict[str, NodeLog]) -> list[GpuUse]:
    """Means and bytes of every GPU over its node's training; `logs` are by the node's name."""
    series: dict[tuple[str, int], list[GpuSample]] = {}
    for sample in samples:
        series.setdefault((sample.node, sample.gpu), []).append(sample)
    return [
        _use(node, gpu, readings, train_spans(logs.get(node, NodeLog([]))))
        for (node, gpu), readings in series.items()
    ]


def train_spans(log: NodeLog) -> list[Span]:
    """Training that was broken off lasted until the node's last event."""
    boundaries = [event for event in log.events if isinstance(event, Phase | End)]
    return [
        (start.t, end.t)
        for start, end in itertools.pairwise([*boundaries, *log.events[-1:]])
        if isinstance(start, Phase) and start.phase == "train" and start.t < end.t
    ]


def _use(node: str, gpu: int, samples: Sequence[GpuSample], spans: Sequence[Span]) -> GpuUse:
    busy = _known(samples, "utilisation_percent", spans)
    memory = [s.reading.memory_bytes for s in samples if s.reading.memory_bytes is not None]
    counted = {name: _counted(samples, name, spans) for name in COUNTED}
    estimated = {
        name: _estimated(samples, rate, spans)
        for name, rate in RATES.items()
        if counted[name] is None
    }
    return GpuUse(
        node=node,
        gpu=gpu,
        utilisation_mean=round(fmean(busy) / 100, 4) if busy else None,
        memory_max_bytes=max(memory, default=None),
        **counted | estimated,
        pcie_estimated=any(value is not None for value in estimated.values()),
    )


def _known(samples: Sequence[GpuSample], name: str, spans: Sequence[Span]) -> list[int]:
    """The readings in training; all readings where training was too short for one."""
    values = [(s.t, value) for s in samples if (value := getattr(s.reading, name)) is not None]
    inside = [v for t, v in values if any(start <= t <= end for start, end in spans)]
    return inside or [v for _, v in values if spans]


def _counted(samples: Sequence[GpuSample], name: str, spans: Sequence[Span]) -> int | None:
    """Bytes between two readings count by the share of the time that was training.

    A counter that fell has restarted at 0.
    """
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
