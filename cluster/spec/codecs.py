"""Codecs of --compress: what each costs on the wire, from sizes alone. Standard library only.

`encoded_bytes(elements)` is exact: workloads/comm/codecs encodes a tensor of so many float32
numbers into so many bytes. A quantiser has one float32 scale for every CHUNK numbers; top-k keeps
the same number of values in every chunk of SPARSE_CHUNK numbers, each as a float32 and an index.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from cluster.spec.errors import unknown

CHUNK = 256
"""Numbers with one scale."""
SCALE_BYTES = 4
SPARSE_CHUNK = 4096
"""Numbers of which top-k keeps a fixed count."""
INDEX_BITS = 12
"""log2 of SPARSE_CHUNK."""
FLOAT_BYTES = 4
QUANTISED_BITS = {"int8": 8, "int4": 4, "2bit": 2, "sign": 1}
"""Quantiser -> bits of a number, beside the scales."""
HALVES = ("fp16", "bf16")
FORMS = ("none", *HALVES, *QUANTISED_BITS, "topk:SHARE")
"""What --compress takes."""


@dataclass(frozen=True)
class Codec:
    """A codec with its parameter."""

    name: str
    encoded_bytes: Callable[[int], int]
    """Of so many float32 numbers."""
    share: float | None = None
    """Of the numbers that a sparse codec keeps."""

    @property
    def lossy(self) -> bool:
        """Loses so much that it needs error feedback, and differences instead of parameters."""
        return self.name not in ("none", *HALVES)


@functools.cache
def parse_codec(text: str) -> Codec:
    """`2bit` or `topk:0.01`; ValueError for anything else."""
    name, has_share, share_text = text.partition(":")
    if name == "topk":
        share = _parse_share(text, share_text)
        return Codec(name, functools.partial(topk_bytes, share=share), share)
    if text not in FORMS:
        if has_share and name in FORMS:
            raise ValueError(f"{name} takes no parameter, not {text!r}")
        raise ValueError(unknown("compress", text, FORMS))
    if name in QUANTISED_BITS:
        return Codec(name, functools.partial(quantised_bytes, bits=QUANTISED_BITS[name]))
    item_bytes = FLOAT_BYTES if name == "none" else 2
    return Codec(name, lambda elements: item_bytes * elements)


def _parse_share(text: str, share_text: str) -> float:
    try:
        share = float(share_text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(
            "topk keeps a share of the numbers, above 0 and up to 1, such as topk:0.01,"
            f" not {text!r}"
        )
    return share


def quantised_bytes(elements: int, bits: int) -> int:
    """A scale for each chunk, and the numbers' bits, packed."""
    return SCALE_BYTES * -(-elements // CHUNK) + -(-elements * bits // 8)


def kept_of(elements: int, share: float) -> int:
    """How many of so many numbers are kept: at least one."""
    return min(elements, max(1, round(share * elements)))


def topk_counts(elements: int, share: float) -> tuple[int, int]:
    """Values kept in all whole chunks together, and in the rest."""
    whole, rest = divmod(elements, SPARSE_CHUNK)
    return whole * kept_of(SPARSE_CHUNK, share), kept_of(rest, share)


def topk_bytes(elements: int, share: float) -> int:
    """Values as float32, and their places in their chunks, packed."""
    kept = sum(topk_counts(elements, share))
    return FLOAT_BYTES * kept + -(-kept * INDEX_BITS // 8)


def takes_two_phases(codec: Codec, workers: int) -> bool:
    """Whether an all-reduce of what cannot be added up is cheaper in two phases.

    Two phases send 2(N-1)/N M, an all-gather (N-1) M. At N = 2 they are equal, and the all-gather
    encodes once instead of twice.
    """
    return codec.lossy and workers > 2
