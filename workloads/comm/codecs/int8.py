"""int8: a chunk of numbers as multiples of 1/127 of its largest.

    scale = max |x| / 127,   q = round(x / scale),   decoded: q scale

Error of a number: at most scale / 2.
"""

import torch
from torch import Tensor

from workloads.comm.codecs.packing import (
    chunks_of,
    require_finite,
    safe_divisor,
    with_scales,
    without_scales,
)

LEVELS = 127


def encode(flat: Tensor) -> Tensor:
    chunks = chunks_of(flat)
    scales = chunks.abs().amax(1, keepdim=True) / LEVELS
    require_finite(scales)
    codes = (chunks / safe_divisor(scales)).round_().to(torch.int8)
    return with_scales(scales, codes.view(-1)[: flat.numel()].view(torch.uint8))


def decode(encoded: Tensor, elements: int) -> Tensor:
    scales, codes = without_scales(encoded, elements)
    return chunks_of(codes.view(torch.int8).float()).mul_(scales).view(-1)[:elements]
