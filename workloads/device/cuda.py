"""A GPU as a worker's device. All code that needs CUDA is in this file (docs/gpu.md).

workloads/device/__init__.py says what each function is for. CUDA_VISIBLE_DEVICES selects the GPUs;
the first one holds the model.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from workloads.device import Device


class Cuda(Device):
    """Times are measured with CUDA events, not with the host's clock."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
            raise RuntimeError(
                f"this node sees no GPU (CUDA_VISIBLE_DEVICES: {visible}): it needs a CUDA build of"
                " torch, and a container with access to a GPU"
            )
        self.torch_device = torch.device("cuda", 0)
        torch.cuda.set_device(self.torch_device)
        torch.backends.cudnn.deterministic = True  # the same seed gives the same accuracy
        torch.backends.cudnn.benchmark = False
        self._side_stream: torch.cuda.Stream | None = None

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.torch_device)

    def data_parallel(self, model: nn.Module, gpus: int) -> nn.Module:
        if gpus == 1:
            return model
        visible = torch.cuda.device_count()
        if visible < gpus:
            raise RuntimeError(f"this node sees {visible} GPUs, and the run needs {gpus}")
        return nn.DataParallel(model, list(range(gpus)))

    def process_group_options(self) -> dict[str, Any]:
        """With a device, NCCL's communicator is created at once, not at the first message."""
        return {"device_id": self.torch_device}

    def record_computed(self) -> torch.cuda.Event:
        event = torch.cuda.Event()
        event.record()
        return event

    @contextlib.contextmanager
    def side_stream(self, after: torch.cuda.Event) -> Iterator[None]:
        if self._side_stream is None:
            self._side_stream = torch.cuda.Stream(self.torch_device)
        self._side_stream.wait_event(after)
        with torch.cuda.device(self.torch_device), torch.cuda.stream(self._side_stream):
            yield

    def join_side_stream(self) -> None:
        if self._side_stream is not None:
            torch.cuda.current_stream().wait_stream(self._side_stream)
