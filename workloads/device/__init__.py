"""The device a worker computes on: torch's CPU, or a GPU (cuda.py).

A GPU executes operations asynchronously, in the order of a stream; times are measured between marks
in that stream. Everything else in workloads is the same for both: tensors are on `torch_device`.
"""

import contextlib
import functools
import time
from typing import Any

import torch
from torch import nn

Mark = Any
"""A point in time or in a stream, as mark() returns it."""


class Device:
    """The CPU: operations run synchronously, times are the host's clock. Cuda overrides it all."""

    torch_device = torch.device("cpu")

    def mark(self) -> Mark:
        """The time at which all operations issued so far are done."""
        return time.perf_counter()

    def seconds(self, start: Mark, end: Mark) -> float:
        """The time between two marks."""
        return float(end - start)

    def synchronize(self) -> None:
        """Wait until all operations issued so far are done."""

    def data_parallel(self, model: nn.Module, gpus: int) -> nn.Module:
        """A model that splits every batch over several GPUs of this process."""
        return model

    def process_group_options(self) -> dict[str, Any]:
        """Arguments for torch.distributed.init_process_group."""
        return {}

    def record_computed(self) -> Mark:
        """A mark for side_stream(): the operations issued so far."""

    def side_stream(self, after: Mark) -> contextlib.AbstractContextManager[Any]:
        """Run operations concurrently with later ones, once those before `after` are done."""
        return contextlib.nullcontext()

    def join_side_stream(self) -> None:
        """Make operations issued from now on wait for those of the side stream."""


@functools.cache
def open_device(name: str) -> Device:
    """The device of this process, by torch's name for it."""
    if name == "cpu":
        return Device()
    from workloads.device.cuda import Cuda

    return Cuda()
