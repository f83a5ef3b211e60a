"""randk: numbers at random places, the same places on all workers; all others are zero.

    kept: max(1, round(SHARE n)) of n numbers, as float32; place i is drawn from the i-th of as many
    equal stretches, and all are moved on by the same random distance, round the end

Places follow from the run's seed and the round, so they are never sent. Tensors of one round can be
added up as they are (Stich et al. 2018; the mask by seed of SPARTA, Beton et al. 2025).
"""

import torch
from torch import Tensor

from cluster.spec.exchange.codecs import kept_of


def places(elements: int, share: float, seed: tuple[int, int, int], device: torch.device) -> Tensor:
    """None twice. `seed`: of the run, number of the round, of the bucket."""
    kept = kept_of(elements, share)
    run, index, part = seed
    drawn = torch.Generator().manual_seed((run * 1_000_003 + index) * 1_009 + part)
    within = torch.rand(kept, generator=drawn, dtype=torch.float64)
    edges = torch.arange(kept + 1) * elements // max(kept, 1)
    length = edges[1:] - edges[:-1]
    shift = torch.randint(max(elements, 1), (1,), generator=drawn)
    found = edges[:-1] + (within * length).long().clamp(max=length - 1) + shift
    return (found % max(elements, 1)).to(device)
