"""Point-to-point messages between workers, and reused receive buffers.

Gloo distinguishes messages by tag and allows any number in flight. NCCL has no tags: messages
between two workers arrive in the order of sending, and a message that waits for its receiver blocks
those behind it. With NCCL, messages that belong together are therefore issued as one group
(`sendrecv`), in the same order on all workers that take part.
"""

import threading
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor

from cluster.spec.schedules.messages import LEAST_CHUNK_BYTES, chunk_lengths

WIRE_TYPES: dict[str, torch.dtype | None] = {
    "none": None,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
"""--compress -> the type in which a tensor travels; None for its own."""

GROUPED_CHUNKS = 16
LEAST_GROUPED_BYTES = 1024 * 1024

_buffers: dict[tuple[str, int, torch.dtype, torch.device, int], Tensor] = {}
"""Each is a thread's own: virtual workers are threads of one process."""
_grouped: list[bool] = [False]

Message = tuple[Tensor, int]
"""A tensor and the rank to send it to, or to receive it from."""


def group_messages(enabled: bool) -> None:
    """Issue messages in groups from now on: for NCCL, and for tests of that order on Gloo."""
    _grouped[0] = enabled


def messages_are_grouped() -> bool:
    return _grouped[0]


def reused_buffer(purpose: str, numel: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The same uninitialised memory for every call with the same arguments.

    Allocating a buffer in every round would cost page faults in every step.
    """
    key = (purpose, numel, dtype, device, threading.get_ident())
    if key not in _buffers:
        _buffers[key] = torch.empty(numel, dtype=dtype, device=device)
    return _buffers[key]


def send(tensor: Tensor, to: int, tag: int = 0) -> dist.Work:
    """Start sending; the tensor must not change before wait() on the result returns."""
    work = dist.isend(tensor, to, tag=tag)
    assert work is not None  # None is returned outside the process group only
    return work


def receive(tensor: Tensor, source: int, tag: int = 0) -> dist.Work:
    """Start receiving; the tensor is complete when wait() on the result returns."""
    work = dist.irecv(tensor, source, tag=tag)
    assert work is not None
    return work


def pipeline_chunks(flat: Tensor) -> tuple[Tensor, ...]:
    """Split a tensor into the chunks of a pipeline.

    Chunks have at least 32 KiB, of which Gloo's 144 bytes per message are 0.4 %, and 8 KiB in short
    messages. Grouped messages use fewer, larger chunks: starting a group on a GPU takes about
    10 µs.
    """
    length, item_bytes = flat.numel(), flat.element_size()
    if messages_are_grouped():
        size = max(-(-length // GROUPED_CHUNKS), LEAST_GROUPED_BYTES // item_bytes)
        return tuple(flat.split(size)) if length else ()
    return tuple(flat.split(chunk_lengths(length, LEAST_CHUNK_BYTES // item_bytes)))


def sendrecv(outgoing: Iterable[Message], incoming: Iterable[Message]) -> None:
    """Send and receive concurrently, and return when all is done; empty tensors are skipped."""
    leaving = [message for message in outgoing if message[0].numel()]
    arriving = [message for message in incoming if message[0].numel()]
    if not messages_are_grouped():
        received = [receive(*message) for message in arriving]
        sent = [send(*message) for message in leaving]
        for work in (*sent, *received):
            work.wait()
        return
    group = [dist.P2POp(dist.irecv, *message) for message in arriving]
    group += [dist.P2POp(dist.isend, *message) for message in leaving]
    for work in dist.batch_isend_irecv(group) if group else ():
        work.wait()
