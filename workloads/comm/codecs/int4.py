"""int4: a chunk of numbers as multiples of 1/7 of its largest, two to a byte.

    scale = max |x| / 7,   q = round(x / scale) + 7,   decoded: (q - 7) scale

Error of a number: at most scale / 2.
"""

import torch
from torch import Tensor

from workloads.comm.codecs.packing import (
    chunks_of,
    pack,
    require_finite,
    safe_divisor,
    unpack,
    with_scales,
    without_scales,
)

LEVELS = 7


def encode(flat: Tensor) -> Tensor:
    chunks = chunks_of(flat)
    scales = chunks.abs().amax(1, keepdim=True) / LEVELS
    require_finite(scales)
    codes = (chunks / safe_divisor(scales)).round_().add_(LEVELS).to(torch.uint8)
    return with_scales(scales, pack(codes, 4, flat.numel()))


def decode(encoded: Tensor, elements: int) -> Tensor:
    scales, packed = without_scales(encoded, elements)
    return unpack(packed, 4).float().sub_(LEVELS).mul_(scales).view(-1)[:elements]
