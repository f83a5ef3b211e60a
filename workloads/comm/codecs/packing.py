"""Chunks with scales, and packed bits: what the codecs share.

An encoded tensor begins with its float32 scales; the packed codes follow.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from cluster.spec.exchange.codecs import CHUNK, SCALE_BYTES

Encode = Callable[[Tensor], Tensor]
"""A flat float32 tensor -> its bytes."""
Decode = Callable[[Tensor, int], Tensor]
"""Its bytes and its number of elements -> a new flat float32 tensor."""


@dataclass(frozen=True)
class TensorCodec:
    encode: Encode
    decode: Decode


def require_finite(sums: Tensor) -> None:
    """ValueError where a value that depends on all numbers is not finite."""
    if not bool(torch.isfinite(sums).all()):
        raise ValueError(
            "what is to be sent has values that are not finite (nan or inf), which no codec can"
            " encode: training has diverged; lower --lr or the rate of --outer"
        )


def chunks_of(flat: Tensor) -> Tensor:
    """One row for each chunk, the last one filled up with zeros."""
    missing = -flat.numel() % CHUNK
    return (functional.pad(flat, (0, missing)) if missing else flat).view(-1, CHUNK)


def chunk_sizes(flat: Tensor) -> Tensor:
    """Numbers of each chunk, as a column: all CHUNK but the last."""
    rows = -(-flat.numel() // CHUNK)
    sizes = torch.full((rows, 1), float(CHUNK), device=flat.device)
    if rows:
        sizes[-1] = flat.numel() - (rows - 1) * CHUNK
    return sizes


def safe_divisor(scales: Tensor) -> Tensor:
    """Scales with 1 in place of 0, which divides a chunk of zeros."""
    return torch.where(scales == 0, 1.0, scales)


def with_scales(scales: Tensor, codes: Tensor) -> Tensor:
    return torch.cat([scales.reshape(-1).view(torch.uint8), codes])


def without_scales(encoded: Tensor, elements: int) -> tuple[Tensor, Tensor]:
    """The scales as a column, and the codes."""
    end = SCALE_BYTES * -(-elements // CHUNK)
    return encoded[:end].clone().view(torch.float32).view(-1, 1), encoded[end:]


def pack(codes: Tensor, bits: int, elements: int) -> Tensor:
    """Codes below 2^bits, 8/bits to a byte, the first in the lowest bits."""
    rows = codes.reshape(-1).view(-1, 8 // bits)
    packed = rows[:, 0].clone()
    for place in range(1, 8 // bits):
        packed |= rows[:, place] << (bits * place)
    return packed[: -(-elements * bits // 8)]


def unpack(packed: Tensor, bits: int) -> Tensor:
    """The inverse of pack, filled up with zeros to whole chunks of codes."""
    per_byte = 8 // bits
    packed = functional.pad(packed, (0, -packed.numel() % (CHUNK // per_byte)))
    codes = torch.empty(packed.numel(), per_byte, dtype=torch.uint8, device=packed.device)
    for place in range(per_byte):
        codes[:, place] = (packed >> (bits * place)) & (2**bits - 1)
    return codes.view(-1, CHUNK)
