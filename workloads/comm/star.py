"""Star exchange: leaves send their tensors to a root, which reduces them and sends the result back.

With L leaves and tensors of M bytes a leaf sends and receives M, and the root L M.

The tensor travels in chunks: while one chunk's result leaves the root, the next chunk arrives
there. A round therefore takes L M over the root's rate, not twice that.

With grouped messages (NCCL) a round has one step per chunk. In step k a leaf sends chunk k and
receives the result of chunk k-1; the root receives chunk k from all leaves and sends the result of
chunk k-1. All nodes take the same steps in the same order, so there is no deadlock.
"""

from collections.abc import Callable, Sequence

import torch.distributed as dist
from torch import Tensor

from workloads.comm.messages import (
    Message,
    messages_are_grouped,
    pipeline_chunks,
    receive,
    reused_buffer,
    send,
    sendrecv,
)

CHUNKS_AHEAD = 8
"""Chunks of each leaf for which the root posts receives in advance."""

Finish = Callable[[slice, Tensor], object]
"""Turns a chunk's sum, in place, into the result for the leaves; the slice is its position."""


def exchange_as_leaf(flat: Tensor, root: int) -> None:
    """Send `flat` to the root and receive the result into it.

    The result of a chunk overwrites that chunk: it cannot arrive before the chunk was sent.
    """
    chunks = pipeline_chunks(flat)
    if messages_are_grouped():
        for outgoing, incoming in zip((*chunks, None), (None, *chunks), strict=True):
            sendrecv(_messages(outgoing, [root]), _messages(incoming, [root]))
        return
    sends = [send(chunk, root, tag=i) for i, chunk in enumerate(chunks)]
    receives = []
    for i, chunk in enumerate(chunks):
        sends[i].wait()
        receives.append(receive(chunk, root, tag=i))
    for work in receives:
        work.wait()


def exchange_as_root(flat: Tensor, leaves: Sequence[int], finish: Finish) -> None:
    """Add the leaves' tensors to `flat`, finish each chunk, and send it to all leaves."""
    chunks = pipeline_chunks(flat)
    if not chunks:
        return
    size = chunks[0].numel()
    if messages_are_grouped():
        _grouped_root(chunks, size, leaves, finish)
        return
    memory = reused_buffer("star", CHUNKS_AHEAD * len(leaves) * size, flat.dtype, flat.device)
    inbox = memory.view(CHUNKS_AHEAD, len(leaves), size)

    def post_receives(i: int) -> list[dist.Work]:
        places = inbox[i % CHUNKS_AHEAD, :, : chunks[i].numel()]
        return [receive(places[at], leaf, tag=i) for at, leaf in enumerate(leaves)]

    posted = {i: post_receives(i) for i in range(min(CHUNKS_AHEAD, len(chunks)))}
    sends = []
    for i, chunk in enumerate(chunks):
        for at, work in enumerate(posted.pop(i)):
            work.wait()
            chunk.add_(inbox[i % CHUNKS_AHEAD, at, : chunk.numel()])
        finish(slice(i * size, i * size + chunk.numel()), chunk)
        sends += [send(chunk, leaf, tag=i) for leaf in leaves]
        if i + CHUNKS_AHEAD < len(chunks):
            posted[i + CHUNKS_AHEAD] = post_receives(i + CHUNKS_AHEAD)
    for work in sends:
        work.wait()


def _grouped_root(
    chunks: Sequence[Tensor], size: int, leaves: Sequence[int], finish: Finish
) -> None:
    """Receive one chunk of each leaf per step, and add it before its memory is reused."""
    first = chunks[0]
    memory = reused_buffer("star", len(leaves) * size, first.dtype, first.device)
    inbox = memory.view(len(leaves), size)
    finished: Tensor | None = None
    for i, chunk in enumerate(chunks):
        arriving = [inbox[at, : chunk.numel()] for at in range(len(leaves))]
        sendrecv(_messages(finished, leaves), zip(arriving, leaves, strict=True))
        for addend in arriving:
            chunk.add_(addend)
        finish(slice(i * size, i * size + chunk.numel()), chunk)
        finished = chunk
    sendrecv(_messages(finished, leaves), [])


def _messages(tensor: Tensor | None, peers: Sequence[int]) -> list[Message]:
    return [] if tensor is None else [(tensor, peer) for peer in peers]
