"""The strategies that Horovod has: a function each, equivalent to workloads/strategies.

Every collective has a name that is the same on all workers and in all rounds. Horovod matches
tensors by name, and caches what was negotiated for it.
"""

from collections.abc import Callable
from typing import Protocol

import horovod.torch as hvd
import torch
from torch import Tensor

from workloads.comm.round import Round

ROOT = 0


class Ranks(Protocol):
    """What an exchange needs to know of HorovodPeers."""

    horovod_ranks: list[int]
    process_sets: dict[tuple[int, ...], hvd.ProcessSet]


def tensor_name(operation: str, tensor: Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{operation}.{dtype}.{tensor.storage_offset()}.{tensor.numel()}"


def no_exchange(ranks: Ranks, flat: Tensor, round: Round) -> None:
    """No-op: a single worker has nobody to exchange with."""


def allreduce(ranks: Ranks, flat: Tensor, round: Round) -> None:
    if round.experiment.workers > 1:
        hvd.allreduce_(flat, name=tensor_name("mean", flat), op=hvd.Sum)
        flat.div_(round.divisor)


def allgather(ranks: Ranks, flat: Tensor, round: Round) -> None:
    if round.experiment.workers > 1 and flat.numel():
        gathered = hvd.allgather(flat.view(1, -1), name=tensor_name("all", flat))
        # Summed in the order of our ranks, so that all workers get identical bits.
        torch.sum(gathered[ranks.horovod_ranks], 0, out=flat)
        flat.div_(round.divisor)


def gather_scatter(ranks: Ranks, flat: Tensor, round: Round) -> None:
    """Two all-to-alls: in the first only the leaves send, in the second only the root does."""
    workers = round.experiment.workers
    if workers == 1 or not flat.numel():
        return
    size, nothing = flat.numel(), flat.new_empty(0)
    gather_sizes = torch.zeros(workers, dtype=torch.int32)
    scatter_sizes = torch.zeros(workers, dtype=torch.int32)
    is_root = round.rank == ROOT
    if is_root:
        scatter_sizes[:] = size
        scatter_sizes[ranks.horovod_ranks[ROOT]] = 0
    else:
        gather_sizes[ranks.horovod_ranks[ROOT]] = size
    gathered, _ = hvd.alltoall(
        nothing if is_root else flat, gather_sizes, name=tensor_name("gather", flat)
    )
    if is_root:
        flat.add_(gathered.view(-1, size).sum(0)).div_(round.divisor)
    outgoing = flat.repeat(workers - 1) if is_root else nothing
    scattered, _ = hvd.alltoall(outgoing, scatter_sizes, name=tensor_name("scatter", flat))
    if not is_root:
        flat.copy_(scattered)


def pairwise(ranks: Ranks, flat: Tensor, round: Round) -> None:
    members = round.members
    if len(members) == round.experiment.workers:
        allreduce(ranks, flat, round)
    elif len(members) > 1:
        group = ranks.process_sets[tuple(sorted(members))]
        hvd.allreduce_(flat, name=tensor_name("mean", flat), op=hvd.Sum, process_set=group)
        flat.div_(len(members))


EXCHANGES: dict[str, Callable[[Ranks, Tensor, Round], None]] = {
    "single": no_exchange,
    "allreduce": allreduce,
    "allgather": allgather,
    "gather-scatter": gather_scatter,
    "pairwise": pairwise,
    "local-sgd": allreduce,
}
"""cluster/spec/launchers.py lists the same names, for hosts without Horovod (test_launchers)."""
