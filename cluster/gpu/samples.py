"""Readings of every node's GPUs -> gpu_samples.csv, while a run lasts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from cluster.gpu.nvml import Nvml
from cluster.observe.collector import CsvSampler, Rows, RowSource
from cluster.spec import clock
from cluster.spec.documents.records import GpuSample
from cluster.spec.experiment import Experiment, node_name

PER_INTERVAL = 5
"""Readings per sampling interval: short runs need some, too."""


def gpus_by_node(
    experiment: Experiment, ids: Sequence[int], first_rank: int = 0
) -> dict[str, list[int]]:
    """The GPUs of each node of a host: one per rank, or all of them for the only rank."""
    if not experiment.gpu:
        return {}
    if experiment.gpu > 1:
        return {node_name(0): list(ids[: experiment.gpu])}
    ranks = range(first_rank, experiment.nodes)
    return {node_name(rank): [gpu] for rank, gpu in zip(ranks, ids, strict=False)}


class GpuCollector(CsvSampler):
    """Samples of all nodes' GPUs. Without NVML, or without GPUs, there is no file."""

    def __init__(
        self, path: Path, nvml: Nvml | None, gpus: dict[str, list[int]], interval: float
    ) -> None:
        def read() -> Rows:
            assert nvml is not None
            return [
                GpuSample(clock.now(), node, index, nvml.read(index)).row()
                for node, indices in gpus.items()
                for index in indices
            ]

        sources = [RowSource("GPUs", PER_INTERVAL, read)] if nvml is not None and gpus else []
        super().__init__(path, GpuSample.COLUMNS, sources, interval)

    def __enter__(self) -> Self:
        return super().__enter__() if self._sources else self
