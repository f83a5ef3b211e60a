"""The device a worker computes on: torch's CPU (cpu.py), or a GPU (cuda.py).

A GPU executes operations asynchronously, in the order of a stream; times are measured between marks
in that stream. Everything else in workloads is the same for both: tensors are created on
`torch_device`.
"""

import contextlib
import functools
from typing import Any, Protocol

import torch
from torch import nn

from workloads.device.cpu import Cpu

Mark = Any
"""A point in time or in a stream, as mark() returns it."""


class Device(Protocol):
    torch_device: torch.device

    def mark(self) -> Mark:
        """The time at which all operations issued so far are done."""

    def seconds(self, start: Mark, end: Mark) -> float:
        """The time between two marks."""

    def synchronize(self) -> None:
        """Wait until all operations issued so far are done."""

    def data_parallel(self, model: nn.Module, gpus: int) -> nn.Module:
        """A model that splits every batch over several GPUs of this process."""

    def process_group_options(self) -> dict[str, Any]:
        """Arguments for torch.distributed.init_process_group."""

    def record_computed(self) -> Mark:
        """A mark for side_stream(): the operations issued so far."""

    def side_stream(self, after: Mark) -> contextlib.AbstractContextManager[Any]:
        """Run operations concurrently with later ones, once those before `after` are done."""

    def join_side_stream(self) -> None:
        """Make operations issued from now on wait for those of the side stream."""


@functools.cache
def open_device(name: str) -> Device:
    """The device of this process, by torch's name for it."""
    if name == "cpu":
        return Cpu()
    from workloads.device.cuda import Cuda

    return Cuda()
