"""topk: the largest numbers of every chunk of 4,096, exactly; all others are zero.

    kept: max(1, round(SHARE n)) of a chunk's n numbers, each as float32 and its place in 12 bits

Values of all chunks come first, then the places. The error is what was left out, at most
(1 - SHARE) |x|^2. With a quantiser (topk:SHARE:2bit) the values of all chunks are encoded by it as
one tensor. Chunks of the same k make the size known before (Shi et al. 2019).
"""

import torch
from torch import Tensor
from torch.nn import functional

from cluster.spec.exchange.codecs import INDEX_BITS, SPARSE_CHUNK, kept_of, topk_counts
from workloads.comm.codecs.packing import TensorCodec, require_finite

AS_FLOATS = TensorCodec(
    lambda values: values.view(torch.uint8),
    lambda encoded, _elements: encoded.clone().view(torch.float32),
)


def encode(flat: Tensor, share: float, values: TensorCodec) -> Tensor:
    whole = flat.numel() // SPARSE_CHUNK * SPARSE_CHUNK
    parts = [flat[:whole].view(-1, SPARSE_CHUNK), flat[whole:].view(1, -1)]
    found = [_largest(part, share) for part in parts]
    largest, places = (torch.cat(each) for each in zip(*found, strict=True))
    require_finite(largest)  # nan and inf are among the largest
    return torch.cat([values.encode(largest), pack_places(places)])


def decode(encoded: Tensor, elements: int, share: float, values: TensorCodec) -> Tensor:
    in_whole, in_rest = topk_counts(elements, share)
    kept = in_whole + in_rest
    begin = encoded.numel() - -(-kept * INDEX_BITS // 8)
    largest = values.decode(encoded[:begin], kept)
    places = unpack_places(encoded[begin:], kept)
    starts = torch.arange(in_whole, device=encoded.device) // kept_of(SPARSE_CHUNK, share)
    places[:in_whole] += starts * SPARSE_CHUNK
    places[in_whole:] += elements // SPARSE_CHUNK * SPARSE_CHUNK
    decoded = torch.zeros(elements, device=encoded.device)
    return decoded.scatter_(0, places, largest)


def _largest(rows: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Values and places of each row's largest, as flat tensors."""
    if not rows.numel():
        return rows.reshape(-1), torch.empty(0, dtype=torch.int64, device=rows.device)
    places = torch.topk(rows.abs(), kept_of(rows.shape[1], share), 1, sorted=False).indices
    return rows.gather(1, places).reshape(-1), places.reshape(-1)


def pack_places(places: Tensor) -> Tensor:
    """Two places of 12 bits in three bytes."""
    pairs = functional.pad(places, (0, places.numel() % 2)).view(-1, 2)
    number = pairs[:, 0] | pairs[:, 1] << INDEX_BITS
    packed = torch.stack([number & 255, number >> 8 & 255, number >> 16], 1)
    return packed.to(torch.uint8).view(-1)[: -(-places.numel() * INDEX_BITS // 8)]


def unpack_places(packed: Tensor, count: int) -> Tensor:
    triples = functional.pad(packed, (0, -packed.numel() % 3)).view(-1, 3).long()
    number = triples[:, 0] | triples[:, 1] << 8 | triples[:, 2] << 16
    places = torch.stack([number & (2**INDEX_BITS - 1), number >> INDEX_BITS], 1)
    return places.reshape(-1)[:count]
