"""Readings of every node's GPUs -> gpu_samples.csv, while a run lasts; beside cluster/observe/collector.py's counters.

Once before and once after, as there; raw and cumulative, as there.
"""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.gpu.nvml import Nvml
from cluster.spec.experiment import Experiment, node_name
from cluster.spec.records import GpuSample

PER_INTERVAL = 5
"""A short run should have some readings, too."""


def gpus_by_node(
    experiment: Experiment, ids: Sequence[int], first_rank: int = 0
) -> dict[str, list[int]]:
    """Which GPUs are whose, of those of one host: one for each rank, or all for the only one."""
    if not experiment.gpu:
        return {}
    if experiment.gpu > 1:
        return {node_name(0): list(ids[: experiment.gpu])}
    ranks = range(first_rank, experiment.nodes)
    return {node_name(rank): [gpu] for rank, gpu in zip(ranks, ids, strict=False)}


class GpuCollector:
    """A context manager: samples flow from entering to leaving. Without NVML, or without GPUs, it does nothing."""

    def __init__(
        self, path: Path, nvml: Nvml | None, gpus: dict[str, list[int]], interval: float
    ) -> None:
        self._path, self._nvml, self._gpus = path, nvml if gpus else None, gpus
        self._pause = interval / PER_INTERVAL
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._writer: Any = None
        self.failure: str | None = None

    def __enter__(self) -> GpuCollector:
        if self._nvml is not None:
            self._file = self._path.open("w", newline="")
            self._writer = csv.writer(self._file)
            self._writer.writerow(GpuSample.COLUMNS)
            self._read()
            self._thread = threading.Thread(target=self._poll, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._read()
        self._file.close()

    def _poll(self) -> None:
        while not self._stop.wait(self._pause):
            self._read()

    def _read(self) -> None:
        """A GPU is never worth a run; the report shows it missing."""
        assert self._nvml is not None
        try:
            for node, indices in self._gpus.items():
                for index in indices:
                    reading = self._nvml.read(index)
                    self._writer.writerow(GpuSample(time.time(), node, index, reading).row())
            self._file.flush()
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
