"""Half precision: any strategy's exchange with tensors encoded in half precision (--compress).

The tensor is rounded to 16 bits, exchanged, and converted back; sums are computed in 16 bits too.
fp16 has 11 significant bits between 6e-8 and 65504; bf16 has 8 bits over the range of float32. Both
suffice for gradients. For parameters fp16 suffices; bf16 rounds away updates below about 0.4 % of a
parameter in every exchange, so training slows down or stops.
"""

from torch import Tensor

from cluster.spec.exchange.codecs import factored_bytes, parse_codec
from workloads.comm.flat import FlatModel
from workloads.comm.messages import WIRE_TYPES, reused_buffer
from workloads.comm.round import Exchange, Round


def compressed(exchange: Exchange, codec: str) -> Exchange:
    """The same exchange in half precision; lossy codecs are in encoded_exchange.py."""
    dtype = WIRE_TYPES.get(codec)
    if dtype is None:
        return exchange

    def exchange_encoded(flat: Tensor, round: Round) -> None:
        if round.alone:
            return
        encoded = reused_buffer("compress", flat.numel(), dtype, flat.device)
        encoded.copy_(flat)
        exchange(encoded, round)
        flat.copy_(encoded)

    return exchange_encoded


def wire_bytes(flat: FlatModel, codec: str) -> int:
    """M: the model's bytes as encoded for the wire."""
    if rank := parse_codec(codec).rank:
        return sum(sum(factored_bytes(part.shapes, rank)) for part in flat.parts)
    tensors = [part.parameters for part in flat.parts]
    if codec not in WIRE_TYPES:
        return sum(parse_codec(codec).encoded_bytes(tensor.numel()) for tensor in tensors)
    return sum(t.numel() * (WIRE_TYPES[codec] or t.dtype).itemsize for t in tensors)
