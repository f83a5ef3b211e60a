"""gather-scatter: gradients are gathered at a root, averaged there, and the mean is sent back.

A leaf sends M per round, the root (N-1) M: 2(N-1)/N M on average, but all of it passes the root's link.
What first courses write with gather and scatter; a slow root slows everybody, a slow leaf much less.

In chunks, so that the root receives, adds and sends at the same time: a round then takes (N-1) M over the
root's rate, not twice that.
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor

from workloads.messages import kept_buffer, receive, send
from workloads.strategies.round import Round

ROOT = 0
CHUNK_BYTES = 128 * 1024
AHEAD = 4
"""Chunks that the root is ready to receive from each leaf before it has dealt with the first."""


def exchange(flat: Tensor, round: Round) -> None:
    if round.experiment.workers == 1:
        return
    chunks = flat.split(CHUNK_BYTES // flat.element_size())
    if round.rank == ROOT:
        _at_the_root(chunks, round.experiment.workers)
    else:
        _at_a_leaf(chunks)


def _at_a_leaf(chunks: tuple[Tensor, ...]) -> None:
    """The mean comes back into the place it left: nobody can send it before it has arrived."""
    leaving = [send(chunk, ROOT, tag=i) for i, chunk in enumerate(chunks)]
    returning = []
    for i, chunk in enumerate(chunks):
        leaving[i].wait()
        returning.append(receive(chunk, ROOT, tag=i))
    for handle in returning:
        handle.wait()


def _at_the_root(chunks: tuple[Tensor, ...], workers: int) -> None:
    leaves = range(1, workers)
    size = chunks[0].numel()
    inbox = kept_buffer("gather-scatter", AHEAD * workers * size, chunks[0].dtype)
    places = inbox.view(AHEAD, workers, size)

    def expect(i: int) -> list[dist.Work]:
        place = places[i % AHEAD, :, : chunks[i].numel()]
        return [receive(place[leaf], leaf, tag=i) for leaf in leaves]

    expected = {i: expect(i) for i in range(min(AHEAD, len(chunks)))}
    leaving = []
    for i, chunk in enumerate(chunks):
        for leaf, handle in zip(leaves, expected.pop(i), strict=True):
            handle.wait()
            chunk.add_(places[i % AHEAD, leaf, : chunk.numel()])
        chunk.div_(workers)
        leaving += [send(chunk, leaf, tag=i) for leaf in leaves]
        if i + AHEAD < len(chunks):
            expected[i + AHEAD] = expect(i + AHEAD)
    for handle in leaving:
        handle.wait()
