"""Average a tensor among some of the workers, with nothing but send and receive.

Subgroups of torch.distributed would have to be made by all workers in the same order, and a random
schedule needs a new one every round; messages need no preparation.

A group of g: the tensor is cut into g chunks. In g-1 steps each member passes a partial sum to its
right neighbour and adds what comes from the left (reduce-scatter); then chunk i is complete in one
place, is divided there, and travels g-1 steps round (all-gather). Sent per member: 2(g-1)/g M.
Every member ends with the same bits, since each chunk's mean is computed once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from workloads.comm.messages import kept_buffer, swap


def average_in_ring(flat: Tensor, members: tuple[int, ...], rank: int, divisor: int) -> None:
    """In place, in the ring order of `members`; every member must call it."""
    if len(members) == 2:
        _average_pair(flat, members[0] + members[1] - rank, divisor)
        return
    size = len(members)
    place = members.index(rank)
    right, left = members[(place + 1) % size], members[(place - 1) % size]
    chunks = _cut(flat, size)
    incoming = kept_buffer("ring", chunks[0].numel(), flat.dtype, flat.device)

    for hop in range(size - 1):
        outgoing, target = chunks[(place - hop) % size], chunks[(place - hop - 1) % size]
        received = incoming[: target.numel()]
        swap(outgoing, right, received, left)
        target.add_(received)
    chunks[(place + 1) % size].div_(divisor)
    for hop in range(size - 1):
        swap(chunks[(place + 1 - hop) % size], right, chunks[(place - hop) % size], left)


def _average_pair(flat: Tensor, partner: int, divisor: int) -> None:
    """One message each way: a + b is the same on both sides, so both end with the same bits."""
    theirs = kept_buffer("pair", flat.numel(), flat.dtype, flat.device)
    swap(flat, partner, theirs, partner)
    flat.add_(theirs).div_(divisor)


def _cut(flat: Tensor, parts: int) -> list[Tensor]:
    """Exactly `parts` chunks, the first ones longest; some are empty in a tiny tensor."""
    return list(torch.tensor_split(flat, parts))
