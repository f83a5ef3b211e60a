"""Messages between workers, and buffers that are kept: nothing is allocated in the steady state."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

WIRE_TYPES: dict[str, torch.dtype | None] = {
    "none": None,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
"""--compress -> what travels instead of the tensor's own type."""

CHUNKS = 128
LEAST_CHUNK_BYTES = 32 * 1024

_buffers: dict[tuple[str, int, torch.dtype], Tensor] = {}


def kept_buffer(purpose: str, numel: int, dtype: torch.dtype) -> Tensor:
    """The same memory each time; what it holds is whatever its last user left."""
    key = (purpose, numel, dtype)
    if key not in _buffers:
        _buffers[key] = torch.empty(numel, dtype=dtype)
    return _buffers[key]


def send(tensor: Tensor, to: int, tag: int = 0) -> dist.Work:
    """Starts it; wait() on the result before the tensor is changed."""
    work = dist.isend(tensor, to, tag=tag)
    assert work is not None  # None is for those outside the group, and nobody is
    return work


def receive(tensor: Tensor, source: int, tag: int = 0) -> dist.Work:
    """Starts it; wait() on the result before the tensor is read."""
    work = dist.irecv(tensor, source, tag=tag)
    assert work is not None
    return work


def cut(flat: Tensor) -> tuple[Tensor, ...]:
    """Into chunks that follow each other down a pipeline.

    What passes a pipeline waits for one chunk to fill it and one to drain it: with 128 chunks, one or
    two percent. Smaller ones than 32 KiB are not made: of those, Gloo's 144 bytes a message are 0.4 %.
    """
    if not flat.numel():
        return ()
    size = max(-(-flat.numel() // CHUNKS), LEAST_CHUNK_BYTES // flat.element_size())
    return tuple(flat.split(size))


def swap(outgoing: Tensor, to: int, incoming: Tensor, source: int) -> None:
    """Send one tensor and receive another at the same time; empty ones are not sent."""
    receiving = receive(incoming, source) if incoming.numel() else None
    sending = send(outgoing, to) if outgoing.numel() else None
    for handle in (sending, receiving):
        if handle is not None:
            handle.wait()
