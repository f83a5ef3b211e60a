"""What each strategy does where Horovod carries it: one function each, the meaning is workloads/strategies'.

Every collective has a name that is the same on all workers and in all rounds: Horovod matches tensors by
name, and remembers what it has once agreed on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import horovod.torch as hvd
import torch
from torch import Tensor

from workloads.strategies import Round

ROOT = 0


class Sets(Protocol):
    """What an exchange needs of HorovodPeers."""

    at: list[int]
    sets: dict[tuple[int, ...], hvd.ProcessSet]


def name(what: str, tensor: Tensor) -> str:
    kind = str(tensor.dtype).removeprefix("torch.")
    return f"{what}.{kind}.{tensor.storage_offset()}.{tensor.numel()}"


def alone(sets: Sets, flat: Tensor, round: Round) -> None:
    """Nobody to talk to."""


def allreduce(sets: Sets, flat: Tensor, round: Round) -> None:
    if round.experiment.workers > 1:
        hvd.allreduce_(flat, name=name("mean", flat), op=hvd.Sum)
        flat.div_(round.divisor)


def allgather(sets: Sets, flat: Tensor, round: Round) -> None:
    workers = round.experiment.workers
    if workers > 1 and flat.numel():
        gathered = hvd.allgather(flat.view(1, -1), name=name("all", flat))
        torch.sum(
            gathered[sets.at], 0, out=flat
        )  # in the order of our ranks: the same bits everywhere
        flat.div_(round.divisor)


def gather_scatter(sets: Sets, flat: Tensor, round: Round) -> None:
    """By all-to-all: first everybody has something for the root alone, then the root for everybody."""
    workers = round.experiment.workers
    if workers == 1 or not flat.numel():
        return
    size, nothing = flat.numel(), flat.new_empty(0)
    to_root = torch.zeros(workers, dtype=torch.int32)
    to_all = torch.zeros(workers, dtype=torch.int32)
    at_root = round.rank == ROOT
    if at_root:
        to_all[:] = size
        to_all[sets.at[ROOT]] = 0
    else:
        to_root[sets.at[ROOT]] = size
    gathered, _ = hvd.alltoall(nothing if at_root else flat, to_root, name=name("gather", flat))
    if at_root:
        flat.add_(gathered.view(-1, size).sum(0)).div_(round.divisor)
    outgoing = flat.repeat(workers - 1) if at_root else nothing
    scattered, _ = hvd.alltoall(outgoing, to_all, name=name("scatter", flat))
    if not at_root:
        flat.copy_(scattered)


def pairwise(sets: Sets, flat: Tensor, round: Round) -> None:
    members = round.members
    if len(members) == round.experiment.workers:
        allreduce(sets, flat, round)
    elif len(members) > 1:
        group = sets.sets[tuple(sorted(members))]
        hvd.allreduce_(flat, name=name("mean", flat), op=hvd.Sum, process_set=group)
        flat.div_(len(members))


EXCHANGES: dict[str, Callable[[Sets, Tensor, Round], None]] = {
    "single": alone,
    "allreduce": allreduce,
    "allgather": allgather,
    "gather-scatter": gather_scatter,
    "pairwise": pairwise,
    "local-sgd": allreduce,
}
