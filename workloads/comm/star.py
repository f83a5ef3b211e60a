"""Star exchange: leaves send their tensors to a root, which reduces them and sends the result back.

With L leaves and tensors of M bytes a leaf sends and receives M, and the root L M. Stars can be
joined to a tree: a relay is the root of its leaves, and a leaf of its own root.

The tensor travels in chunks: while one chunk's result leaves the root, the next chunk arrives
there. A round therefore takes L M over the root's rate, not twice that.

Gloo sends a chunk when it knows that its receive is posted, and that notice travels behind the data
that waits for the link, up to 50 ms. So receives are posted before chunks are due: of results at
once, of leaves' chunks some ahead.

With grouped messages (NCCL) a round has one step per chunk. In step k a leaf sends chunk k and
receives the result of chunk k-1; the root receives chunk k from all leaves and sends the result of
chunk k-1. All nodes take the same steps in the same order, so there is no deadlock.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain

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

CHUNKS_AHEAD = 3
"""Chunks of each leaf for which its root posts receives in advance. With more, leaves run ahead of
the slowest, and data waits in the queues of links: a tree of 4 takes 1.27 instead of 1.08 times its
bound with 5 to 10."""

Finish = Callable[[slice, Tensor], object]
"""Turns a chunk's sum, in place, into the result for the leaves; the slice is its position."""


def exchange_as_leaf(flat: Tensor, root: int) -> None:
    """Send `flat` to the root and receive the result into it."""
    chunks = pipeline_chunks(flat)
    if messages_are_grouped():
        for outgoing, incoming in zip((*chunks, None), (None, *chunks), strict=True):
            sendrecv(_messages(outgoing, [root]), _messages(incoming, [root]))
        return
    results = _results(chunks, root)
    sends = [send(chunk, root, tag=i) for i, chunk in enumerate(chunks)]
    _wait(sends, results)


def exchange_as_root(flat: Tensor, leaves: Sequence[int], finish: Finish) -> None:
    """Add the leaves' tensors to `flat`, finish each chunk, and send it to all leaves."""
    chunks = pipeline_chunks(flat)
    if messages_are_grouped():
        _grouped_root(chunks, leaves, finish)
        return
    sends: list[dist.Work] = []
    start = 0
    for i, chunk in enumerate(_reduced(chunks, leaves)):
        finish(slice(start, start + chunk.numel()), chunk)
        start += chunk.numel()
        sends += [send(chunk, leaf, tag=i) for leaf in leaves]
    _wait(sends)


def exchange_as_relay(flat: Tensor, root: int, leaves: Sequence[int]) -> None:
    """Add the leaves' tensors to `flat`, send it to the root, and its result to the leaves.

    A second thread passes on results, which arrive while later chunks are still reduced.
    """
    chunks = pipeline_chunks(flat)
    results = _results(chunks, root)
    passed_on = _second_thread().submit(_pass_on, chunks, results, leaves)
    _wait([send(chunk, root, tag=i) for i, chunk in enumerate(_reduced(chunks, leaves))])
    _wait(passed_on.result())


def _results(chunks: Sequence[Tensor], root: int) -> list[dist.Work]:
    """Post receives of the root's results.

    The result of a chunk overwrites that chunk: it cannot arrive before the chunk was sent.
    """
    return [receive(chunk, root, tag=i) for i, chunk in enumerate(chunks)]


def _reduced(chunks: Sequence[Tensor], leaves: Sequence[int]) -> Iterator[Tensor]:
    """Each chunk as soon as those of all leaves were added to it, in the order of leaves."""
    if not chunks:
        return
    size = max(chunk.numel() for chunk in chunks)
    ahead = min(len(chunks), CHUNKS_AHEAD)
    memory = reused_buffer("star", ahead * len(leaves) * size, chunks[0].dtype, chunks[0].device)
    inbox = memory.view(ahead, len(leaves), size)

    def post_receives(i: int) -> list[dist.Work]:
        places = inbox[i % ahead, :, : chunks[i].numel()]
        return [receive(places[at], leaf, tag=i) for at, leaf in enumerate(leaves)]

    posted = {i: post_receives(i) for i in range(ahead)}
    for i, chunk in enumerate(chunks):
        for at, work in enumerate(posted.pop(i)):
            work.wait()
            chunk.add_(inbox[i % ahead, at, : chunk.numel()])
        if i + ahead < len(chunks):
            posted[i + ahead] = post_receives(i + ahead)
        yield chunk


def _pass_on(
    chunks: Sequence[Tensor], results: Sequence[dist.Work], leaves: Sequence[int]
) -> list[dist.Work]:
    sends: list[dist.Work] = []
    for i, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
        result.wait()
        sends += [send(chunk, leaf, tag=i) for leaf in leaves]
    return sends


@cache
def _second_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "relay")


def _wait(*works: Sequence[dist.Work]) -> None:
    for work in chain.from_iterable(works):
        work.wait()


def _grouped_root(chunks: Sequence[Tensor], leaves: Sequence[int], finish: Finish) -> None:
    """Receive one chunk of each leaf per step, and add it before its memory is reused."""
    if not chunks:
        return
    first, size = chunks[0], chunks[0].numel()
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
