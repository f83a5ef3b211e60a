"""Smaller numbers on the wire: an exchange in half precision, whatever the strategy.

The tensor is rounded to 16 bits, exchanged, and widened again. fp16 keeps 11 significant bits between
6e-8 and 65504, bf16 keeps 8 bits over the range of float32. Sums are formed in 16 bits too.
Gradients bear that well. Parameters bear fp16; in bf16 an update of less than a few thousandths of a parameter
is rounded away with every exchange, and training slows down or stops.
"""

from __future__ import annotations

from torch import Tensor

from workloads.comm.flat import FlatModel
from workloads.comm.messages import WIRE_TYPES, kept_buffer
from workloads.strategies import Exchange, Round


def compressed(exchange: Exchange, how: str) -> Exchange:
    """The same exchange with what it sends made smaller."""
    dtype = WIRE_TYPES[how]
    if dtype is None:
        return exchange

    def exchange_small(flat: Tensor, round: Round) -> None:
        if round.alone:
            return
        small = kept_buffer("compress", flat.numel(), dtype, flat.device)
        small.copy_(flat)
        exchange(small, round)
        flat.copy_(small)

    return exchange_small


def wire_bytes(flat: FlatModel, how: str) -> int:
    """M: what one round exchanges."""
    tensors = [part.parameters for part in flat.parts]
    return sum(t.numel() * (WIRE_TYPES[how] or t.dtype).itemsize for t in tensors)
