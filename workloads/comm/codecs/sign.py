"""sign: the signs of a chunk and the mean of its sizes (Bernstein et al. 2018, Karimireddy 2019).

    scale = mean |x|,   q = x >= 0,   decoded: +scale or -scale

The scale is the one of least squared error, so that the error is never longer than the chunk:
|x - decoded|^2 = |x|^2 - n scale^2.
"""

import torch
from torch import Tensor

from workloads.comm.codecs.packing import (
    chunk_sizes,
    chunks_of,
    pack,
    require_finite,
    unpack,
    with_scales,
    without_scales,
)


def encode(flat: Tensor) -> Tensor:
    chunks = chunks_of(flat)
    scales = chunks.abs().sum(1, keepdim=True) / chunk_sizes(flat)
    require_finite(scales)
    return with_scales(scales, pack((chunks >= 0).view(torch.uint8), 1, flat.numel()))


def decode(encoded: Tensor, elements: int) -> Tensor:
    scales, packed = without_scales(encoded, elements)
    return unpack(packed, 1).float().mul_(2).sub_(1).mul_(scales).view(-1)[:elements]
