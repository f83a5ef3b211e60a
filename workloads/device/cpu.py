"""The CPU as a worker's device: operations run synchronously, times are the host's clock.

workloads/device/__init__.py says what each function is for.
"""

import contextlib
import time
from typing import Any

import torch
from torch import nn


class Cpu:
    torch_device = torch.device("cpu")

    def mark(self) -> float:
        return time.perf_counter()

    def seconds(self, start: float, end: float) -> float:
        return end - start

    def synchronize(self) -> None:
        """No-op: every operation has completed when it returns."""

    def data_parallel(self, model: nn.Module, gpus: int) -> nn.Module:
        return model

    def process_group_options(self) -> dict[str, Any]:
        return {}

    def record_computed(self) -> object:
        return None

    def side_stream(self, after: object) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def join_side_stream(self) -> None:
        """No-op: there is no side stream."""
