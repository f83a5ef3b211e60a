"""Rings written with send and receive only: all-reduce among some workers, and all-gather.

The tensor of M bytes is split into g chunks for a group of g workers. Reduce-scatter: in each of
g-1 steps a member sends a partial sum to its right neighbour and adds the one that it receives from
its left neighbour. Each member then has one complete chunk, which it divides. All-gather: in g-1
further steps the finished chunks travel round the ring.

Bytes sent per member: 2(g-1)/g M. All members end with identical bits, because each chunk's mean is
computed by one member.

torch.distributed has subgroups, but all workers must create each one in the same order, and a
random schedule needs new ones every round. Point-to-point messages need no preparation.
"""

import torch
from torch import Tensor

from workloads.comm.messages import pipeline_chunks, receive, reused_buffer, send, sendrecv


def ring_average(flat: Tensor, members: tuple[int, ...], rank: int, divisor: int) -> None:
    """Replace `flat` by the members' sum over `divisor`; every member must call this."""
    if len(members) == 2:
        _average_pair(flat, members[0] + members[1] - rank, divisor)
        return
    size = len(members)
    position = members.index(rank)
    right, left = members[(position + 1) % size], members[(position - 1) % size]
    chunks = torch.tensor_split(flat, size)  # the first ones are longest, some may be empty
    incoming = reused_buffer("ring", chunks[0].numel(), flat.dtype, flat.device)

    for hop in range(size - 1):
        outgoing, target = chunks[(position - hop) % size], chunks[(position - hop - 1) % size]
        received = incoming[: target.numel()]
        sendrecv([(outgoing, right)], [(received, left)])
        target.add_(received)
    chunks[(position + 1) % size].div_(divisor)
    for hop in range(size - 1):
        outgoing, target = chunks[(position + 1 - hop) % size], chunks[(position - hop) % size]
        sendrecv([(outgoing, right)], [(target, left)])


def _average_pair(flat: Tensor, partner: int, divisor: int) -> None:
    """One message of M bytes each way. a + b equals b + a, so both end with identical bits."""
    received = reused_buffer("pair", flat.numel(), flat.dtype, flat.device)
    sendrecv([(flat, partner)], [(received, partner)])
    flat.add_(received).div_(divisor)


def gather_round_the_ring(flat: Tensor, gathered: Tensor, rank: int) -> None:
    """Fill row r of `gathered` with worker r's tensor."""
    workers = len(gathered)
    gathered[rank].copy_(flat)
    right, left = (rank + 1) % workers, (rank - 1) % workers
    chunks = [pipeline_chunks(gathered[(rank - hop) % workers]) for hop in range(workers)]
    receives = [
        [receive(chunk, left, tag=i) for i, chunk in enumerate(chunks[hop])]
        for hop in range(1, workers)
    ]
    sends = [send(chunk, right, tag=i) for i, chunk in enumerate(chunks[0])]
    for hop, works in enumerate(receives, start=1):
        for i, work in enumerate(works):
            work.wait()
            if hop < workers - 1:
                sends.append(send(chunks[hop][i], right, tag=i))
    for work in sends:
        work.wait()
