"""Smaller numbers on the wire: an exchange in half precision, whatever the strategy.

The tensor is rounded to 16 bits, exchanged, and widened again. fp16 keeps 11 significant bits between
6e-8 and 65504, bf16 keeps 8 bits over the range of float32. Sums are formed in 16 bits too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from workloads.messages import kept_buffer
from workloads.strategies import Exchange, Round

WIRE_TYPES: dict[str, torch.dtype | None] = {
    "none": None,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}


def compressed(exchange: Exchange, how: str) -> Exchange:
    """The same exchange with what it sends made smaller."""
    dtype = WIRE_TYPES[how]
    if dtype is None:
        return exchange

    def exchange_small(flat: Tensor, round: Round) -> None:
        small = kept_buffer("compress", flat.numel(), dtype)
        small.copy_(flat)
        exchange(small, round)
        flat.copy_(small)

    return exchange_small


def wire_bytes(flat: Tensor, how: str) -> int:
    """M: what one round exchanges."""
    dtype = WIRE_TYPES[how] or flat.dtype
    return flat.numel() * dtype.itemsize
