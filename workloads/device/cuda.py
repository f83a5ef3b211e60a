"""A worker's GPU: every line of gradwire that needs one. Where there is none, none of them has run (docs/gpu.md).

See workloads/device/timing.py for what each function is for. CUDA_VISIBLE_DEVICES says which GPUs are ours; the first of them
holds the model.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


class Cuda:
    """Times are CUDA events; the host's clock is not looked at."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
            raise RuntimeError(
                f"this node sees no GPU (CUDA_VISIBLE_DEVICES: {visible}): it needs a CUDA build of torch, and a"
                " container that was given one"
            )
        self.at = torch.device("cuda", 0)
        torch.cuda.set_device(self.at)
        torch.backends.cudnn.deterministic = True  # the same seed gives the same accuracy
        torch.backends.cudnn.benchmark = False
        self._beside: torch.cuda.Stream | None = None

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000

    def settle(self) -> None:
        torch.cuda.synchronize(self.at)

    def spread(self, model: nn.Module, gpus: int) -> nn.Module:
        if gpus == 1:
            return model
        seen = torch.cuda.device_count()
        if seen < gpus:
            raise RuntimeError(f"this node sees {seen} GPUs, and the run asks for {gpus}")
        return nn.DataParallel(model, list(range(gpus)))

    def join_options(self) -> dict[str, Any]:
        """With it NCCL's communicator is made at once, by all: later a few may begin by themselves."""
        return {"device_id": self.at}

    def ready(self) -> torch.cuda.Event:
        event = torch.cuda.Event()
        event.record()
        return event

    @contextlib.contextmanager
    def aside(self, ready: torch.cuda.Event) -> Iterator[None]:
        if self._beside is None:
            self._beside = torch.cuda.Stream(self.at)
        self._beside.wait_event(ready)
        with torch.cuda.device(self.at), torch.cuda.stream(self._beside):
            yield

    def rejoin(self) -> None:
        if self._beside is not None:
            torch.cuda.current_stream().wait_stream(self._beside)
