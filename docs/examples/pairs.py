"""Workers average their parameters in changing pairs; with an odd number, one pauses each round."""

import torch
import torch.distributed as dist


def partner(rank, round):
    """Neighbours on a ring: 0-1, 2-3, ... in even rounds, 1-2, 3-4, ... in odd ones."""
    shift = round.index % 2
    place = (rank - shift) % round.workers
    other = place ^ 1
    is_alone = round.workers == 1 or other >= round.workers
    return rank if is_alone else (other + shift) % round.workers


def exchange(tensor, round):
    other = partner(round.rank, round)
    if other == round.rank:
        return
    received = torch.empty_like(tensor)
    works = [dist.isend(tensor, other), dist.irecv(received, other)]
    for work in works:
        work.wait()
    tensor.add_(received).div_(2)


def messages(round, setting):
    pairs = [(rank, partner(rank, round)) for rank in range(round.workers)]
    return [(rank, other, setting.model_bytes) for rank, other in pairs if rank != other]
