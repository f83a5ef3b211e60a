"""2bit: sign and size of a number, small or large.

    large: |x| >= 0.98 rms,   c = sign (large ? 1.51 : 0.453),   scale = <x, c> / <c, c>
    decoded: c scale

Thresholds and levels are those of least error for normally distributed numbers (Max 1960), and
the scale has the least squared error for the levels chosen: the error is never longer than the
chunk, |x - decoded|^2 = |x|^2 - <x, c>^2 / <c, c>, and 0.12 |x|^2 for normal numbers.
"""

import torch
from torch import Tensor

from workloads.comm.codecs.packing import (
    chunk_sizes,
    chunks_of,
    pack,
    require_finite,
    safe_divisor,
    unpack,
    with_scales,
    without_scales,
)

THRESHOLD, SMALL, LARGE = 0.9816, 0.4528, 1.510
"""In units of the root mean square."""


def encode(flat: Tensor) -> Tensor:
    chunks, sizes = chunks_of(flat), chunk_sizes(flat)
    absolute = chunks.abs()
    # Relative to the largest, so that squares neither overflow nor vanish.
    largest = absolute.amax(1, keepdim=True)
    require_finite(largest)
    absolute = absolute.div_(safe_divisor(largest))
    squares = torch.linalg.vecdot(absolute, absolute).unsqueeze(1)
    large = absolute >= THRESHOLD * (squares / sizes).sqrt()
    total, of_large = absolute.sum(1, keepdim=True), (absolute * large).sum(1, keepdim=True)
    count = large.sum(1, keepdim=True)
    product = SMALL * total + (LARGE - SMALL) * of_large
    levels = SMALL**2 * (sizes - count) + LARGE**2 * count
    scales = product / levels * largest
    codes = large.view(torch.uint8) << 1
    codes |= (chunks >= 0).view(torch.uint8)
    return with_scales(scales, pack(codes, 2, flat.numel()))


def decode(encoded: Tensor, elements: int) -> Tensor:
    scales, packed = without_scales(encoded, elements)
    levels = torch.tensor([-SMALL, SMALL, -LARGE, LARGE], device=encoded.device)
    return levels[unpack(packed, 2).int()].mul_(scales).view(-1)[:elements]
