"""Messages between workers, and buffers that are kept: nothing is allocated in the steady state.

Gloo tells messages apart by tags, and lets any number of them be under way. NCCL has no tags: messages between two
workers arrive in the order in which they were sent, and one that waits for its other end holds up those behind it.
So there, what happens at the same time is handed over as one group (`sendrecv`), in the same order by all who take part.
"""

from __future__ import annotations

from collections.abc import Iterable

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

GROUPED_CHUNKS = 16
LEAST_GROUPED_BYTES = 1024 * 1024

_buffers: dict[tuple[str, int, torch.dtype, torch.device], Tensor] = {}
_grouped: list[bool] = [False]

Message = tuple[Tensor, int]
"""With the rank of its other end."""


def group_messages(yes: bool) -> None:
    """From now on in this process; for NCCL, and for tests of what is done there."""
    _grouped[0] = yes


def are_grouped() -> bool:
    return _grouped[0]


def kept_buffer(purpose: str, numel: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The same memory each time; what it holds is whatever its last user left."""
    key = (purpose, numel, dtype, device)
    if key not in _buffers:
        _buffers[key] = torch.empty(numel, dtype=dtype, device=device)
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
    Groups are fewer and larger: a GPU takes some 10 microseconds to begin one.
    """
    if not flat.numel():
        return ()
    chunks, least = CHUNKS, LEAST_CHUNK_BYTES
    if are_grouped():
        chunks, least = GROUPED_CHUNKS, LEAST_GROUPED_BYTES
    size = max(-(-flat.numel() // chunks), least // flat.element_size())
    return tuple(flat.split(size))


def sendrecv(outgoing: Iterable[Message], incoming: Iterable[Message]) -> None:
    """Send and receive at the same time, until all is there; empty tensors are not sent."""
    leaving = [message for message in outgoing if message[0].numel()]
    arriving = [message for message in incoming if message[0].numel()]
    if not are_grouped():
        received = [receive(*message) for message in arriving]
        sent = [send(*message) for message in leaving]
        for handle in (*sent, *received):
            handle.wait()
        return
    group = [dist.P2POp(dist.irecv, *message) for message in arriving]
    group += [dist.P2POp(dist.isend, *message) for message in leaving]
    for handle in dist.batch_isend_irecv(group) if group else ():
        handle.wait()


def swap(outgoing: Tensor, to: int, incoming: Tensor, source: int) -> None:
    """Send one tensor and receive another at the same time."""
    sendrecv([(outgoing, to)], [(incoming, source)])
