"""Partition of the training samples among workers, with or without label skew.

iid              each epoch's common shuffle is distributed: equal label mix (batches.py)
dirichlet:ALPHA  each worker draws its label mix from a Dirichlet distribution: nearly equal for
                 ALPHA = 100, one or two labels per worker for 0.1 (Hsu, Qi and Brown 2019)
label            samples sorted by label, one contiguous piece per worker: maximal label skew

All shards have the same size, so that all workers make the same number of steps.
"""

import random

import torch
from torch import Tensor

from cluster.spec.catalogue import parse_partition


def shards(labels: Tensor, workers: int, partition: str, seed: int) -> list[Tensor]:
    """Positions of `labels` for each worker: len(labels) // workers each, none twice."""
    kind, alpha = parse_partition(partition)
    size = len(labels) // workers
    if kind == "label":
        order = labels.argsort(stable=True)
        return list(order[: size * workers].split(size))
    if kind == "iid":
        generator = torch.Generator().manual_seed(seed)
        return list(torch.randperm(len(labels), generator=generator)[: size * workers].split(size))
    return _by_mixes(labels.tolist(), workers, size, alpha, random.Random(f"dirichlet {seed}"))


def _by_mixes(
    labels: list[int], workers: int, size: int, alpha: float, draw: random.Random
) -> list[Tensor]:
    pools: dict[int, list[int]] = {label: [] for label in sorted(set(labels))}
    for position in draw.sample(range(len(labels)), len(labels)):
        pools[labels[position]].append(position)
    found = []
    for _ in range(workers):
        mix = _dirichlet(len(pools), alpha, draw)
        mine: list[int] = []
        while len(mine) < size:
            left = [share if pool else 0.0 for share, pool in zip(mix, pools.values(), strict=True)]
            if not sum(left):  # its labels are used up: take any others
                left = [float(len(pool)) for pool in pools.values()]
            mine += _take(list(pools.values()), left, size - len(mine), draw)
        found.append(torch.tensor(mine))
    return found


def _dirichlet(count: int, alpha: float, draw: random.Random) -> list[float]:
    """Gamma variates, whose shares are Dirichlet distributed; a tiny alpha may round all to 0."""
    variates = [draw.gammavariate(alpha, 1.0) for _ in range(count)]
    if not sum(variates):
        variates[draw.randrange(count)] = 1.0
    return variates


def _take(
    pools: list[list[int]], weights: list[float], count: int, draw: random.Random
) -> list[int]:
    """Up to `count` samples by weight; fewer when a pool is empty and weights must change."""
    taken = []
    for chosen in draw.choices(range(len(pools)), weights, k=count):
        if not pools[chosen]:
            break
        taken.append(pools[chosen].pop())
    return taken
