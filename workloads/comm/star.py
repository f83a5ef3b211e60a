"""A centre that receives, combines and sends back at the same time; its leaves.

In chunks: while one chunk's results leave, the next ones arrive. A round then takes what the centre
sends, or receives, over its rate; not the sum of the two.

In groups (NCCL) that is a step for each chunk: the k-th of all is, at a leaf, to send chunk k and receive what came of
chunk k-1; at the centre to receive chunk k from all leaves and send them what came of chunk k-1. Both sides take the
same steps in the same order, so nobody waits for a step that the other has not come to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch.distributed as dist
from torch import Tensor

from workloads.comm.messages import Message, are_grouped, cut, kept_buffer, receive, send, sendrecv

AHEAD = 8
"""Chunks that the centre is ready to receive from each leaf before it has dealt with the first."""

Finish = Callable[[slice, Tensor], object]
"""Given where a chunk lies and its sum, make it what the leaves get."""


def at_a_leaf(flat: Tensor, centre: int) -> None:
    """The answer comes back into the place it left: nobody can send it before all have arrived."""
    chunks = cut(flat)
    if are_grouped():
        for leaving_now, returning_now in zip((*chunks, None), (None, *chunks), strict=True):
            sendrecv(_with(leaving_now, [centre]), _with(returning_now, [centre]))
        return
    leaving = [send(chunk, centre, tag=i) for i, chunk in enumerate(chunks)]
    returning = []
    for i, chunk in enumerate(chunks):
        leaving[i].wait()
        returning.append(receive(chunk, centre, tag=i))
    for handle in returning:
        handle.wait()


def at_the_centre(flat: Tensor, leaves: Sequence[int], finish: Finish) -> None:
    """Add the leaves' tensors to `flat`, finish each chunk, and send it to all of them."""
    chunks = cut(flat)
    if not chunks:
        return
    size = chunks[0].numel()
    if are_grouped():
        _centre_in_groups(chunks, size, leaves, finish)
        return
    inbox = kept_buffer("star", AHEAD * len(leaves) * size, flat.dtype, flat.device)
    places = inbox.view(AHEAD, len(leaves), size)

    def expect(i: int) -> list[dist.Work]:
        place = places[i % AHEAD, :, : chunks[i].numel()]
        return [receive(place[at], leaf, tag=i) for at, leaf in enumerate(leaves)]

    expected = {i: expect(i) for i in range(min(AHEAD, len(chunks)))}
    leaving = []
    for i, chunk in enumerate(chunks):
        for at, handle in enumerate(expected.pop(i)):
            handle.wait()
            chunk.add_(places[i % AHEAD, at, : chunk.numel()])
        finish(slice(i * size, i * size + chunk.numel()), chunk)
        leaving += [send(chunk, leaf, tag=i) for leaf in leaves]
        if i + AHEAD < len(chunks):
            expected[i + AHEAD] = expect(i + AHEAD)
    for handle in leaving:
        handle.wait()


def _centre_in_groups(
    chunks: Sequence[Tensor], size: int, leaves: Sequence[int], finish: Finish
) -> None:
    """One chunk of each leaf at a time: it is added before the next step receives into its place."""
    first = chunks[0]
    inbox = kept_buffer("star", len(leaves) * size, first.dtype, first.device)
    places = inbox.view(len(leaves), size)
    done: Tensor | None = None
    for i, chunk in enumerate(chunks):
        arriving = [places[at, : chunk.numel()] for at in range(len(leaves))]
        sendrecv(_with(done, leaves), zip(arriving, leaves, strict=True))
        for part in arriving:
            chunk.add_(part)
        finish(slice(i * size, i * size + chunk.numel()), chunk)
        done = chunk
    sendrecv(_with(done, leaves), [])


def _with(tensor: Tensor | None, peers: Sequence[int]) -> list[Message]:
    return [] if tensor is None else [(tensor, peer) for peer in peers]
