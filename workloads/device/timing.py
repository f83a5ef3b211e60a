"""Where a worker computes, and how its time is taken: the CPU here, a GPU in workloads/device/cuda.py.

Everything else that torch does is the same for both: tensors are made on `at`, and say themselves where they are.
On a GPU what is asked for is done later and in order, in a stream: a time is that between two marks in the stream.
"""

from __future__ import annotations

import contextlib
import functools
import time
from typing import Any, Protocol

import torch
from torch import nn

Mark = Any
"""A moment, as mark() has it."""


class Device(Protocol):
    at: torch.device

    def mark(self) -> Mark:
        """When all that was asked for so far is done."""

    def seconds(self, start: Mark, end: Mark) -> float:
        """From one mark to another."""

    def settle(self) -> None:
        """Until all that was asked for is done."""

    def spread(self, model: nn.Module, gpus: int) -> nn.Module:
        """A model that splits every batch over so many devices of this process."""

    def join_options(self) -> dict[str, Any]:
        """What torch.distributed is told of it."""

    def ready(self) -> Mark:
        """For aside(): what was asked for until now comes first."""

    def aside(self, ready: Mark) -> contextlib.AbstractContextManager[Any]:
        """What is asked for in it is done beside everything else, after `ready`."""

    def rejoin(self) -> None:
        """What is asked for from now on is done after all that was asked for aside."""


class Cpu:
    """See Device. What is asked for is done at once."""

    at = torch.device("cpu")

    def mark(self) -> float:
        return time.perf_counter()

    def seconds(self, start: float, end: float) -> float:
        return end - start

    def settle(self) -> None:
        """It is."""

    def spread(self, model: nn.Module, gpus: int) -> nn.Module:
        return model

    def join_options(self) -> dict[str, Any]:
        return {}

    def ready(self) -> Mark:
        return None

    def aside(self, ready: Mark) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def rejoin(self) -> None:
        """Nothing is ever aside."""


@functools.cache
def open_device(name: str) -> Device:
    """By torch's name for it; one object in a process."""
    if name == "cpu":
        return Cpu()
    from workloads.device.cuda import Cuda

    return Cuda()
