"""Codecs of --compress: what each costs on the wire, from sizes alone. Standard library only.

`encoded_bytes(elements)` is exact: workloads/comm/codecs encodes a tensor of so many float32
numbers into so many bytes. A quantiser has one float32 scale for every CHUNK numbers; top-k keeps
the same number of values in every chunk of SPARSE_CHUNK numbers, each as a float32, or quantised,
and an index.
rand-k keeps values at places that all workers draw with the same seed: they need no index, and can
be added up, so that every exchange carries them. PowerSGD sends two thin matrices for a layer: its
bytes follow from the layers' shapes (`factored_bytes`), not from their number of elements.
"""

import functools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
HALVES, HALF_BYTES = ("fp16", "bf16"), 2
SPARSE = ("topk", "randk")
POWER, MOST_RANK = "powersgd", 1024
FORMS = (
    *("none", *HALVES, *QUANTISED_BITS),
    *("topk:SHARE", "topk:SHARE:QUANTISER", "randk:SHARE"),
    f"{POWER}:RANK",
)
"""What --compress takes."""

OF_DIFFERENCES = ("allreduce", "allgather", "gather-scatter", "ddp", "local-sgd")
"""Strategies that exchange gradients or outer deltas, and can decode where they average."""
SERVER = "parameter-server"
OF_CODES = (*OF_DIFFERENCES, SERVER)
"""Those that can exchange what cannot be added up."""
ADDING = ("ring", "halving-doubling", "hierarchical", "reduce-broadcast")
"""Those that add up on the way."""
OF_SUMS = (*ADDING, *OF_DIFFERENCES)
NO_REFERENCE = ("pairwise", "sgp")
"""Partners change with every round: no two workers know the same model to take differences from."""


@dataclass(frozen=True)
class Codec:
    """A codec with its parameter."""

    name: str
    encoded_bytes: Callable[[int], int]
    """Of so many float32 numbers."""
    share: float | None = None
    """Of the numbers that a sparse codec keeps."""
    values: str | None = None
    """The quantiser of the numbers that top-k keeps; None: they are float32."""
    rank: int | None = None
    """Of the matrices of PowerSGD."""

    @property
    def lossy(self) -> bool:
        """Loses so much that it needs error feedback, and differences instead of parameters."""
        return self.name not in ("none", *HALVES)

    @property
    def adds_up(self) -> bool:
        """Whether encoded tensors can be added up on their way."""
        return not self.lossy or self.name in ("randk", POWER)

    def elements_of(self, encoded_bytes: int) -> int:
        """How many numbers are encoded into so many bytes: the middle one of those counts."""
        counts = range(SPARSE_CHUNK * encoded_bytes + 1)
        first = bisect_left(counts, encoded_bytes, key=self.encoded_bytes)
        return (first + bisect_right(counts, encoded_bytes, lo=first, key=self.encoded_bytes)) // 2

    @property
    def carriers(self) -> tuple[str, ...]:
        """Strategies whose exchange carries it, of the lossy ones."""
        if self.name == "randk":
            return (*OF_SUMS, "pairwise")
        return OF_SUMS if self.adds_up else OF_CODES

    def why_not(self, strategy: str) -> str:
        """Why this strategy is no carrier, as the end of a sentence that names it."""
        if strategy == SERVER:
            return "whose server sends back how every parameter changed, which this cannot hold"
        if strategy in NO_REFERENCE:
            return (
                "whose partners change every round: codes are of differences, and no two workers"
                " have the same model to take them from"
            )
        if strategy in ADDING:
            return "which adds up what it passes on, and these codes cannot be added up"
        return "whose exchange takes numbers, not codes"


@functools.cache
def parse_codec(text: str) -> Codec:
    """`2bit`, `topk:0.01` or `topk:0.01:2bit`; ValueError for anything else."""
    name, has_share, share_text = text.partition(":")
    if name == "topk":
        share_text, has_values, values = share_text.partition(":")
        share = _parse_share(name, text, share_text)
        if has_values and values not in QUANTISED_BITS:
            raise ValueError(unknown("values of topk", values, QUANTISED_BITS))
        size = functools.partial(topk_bytes, share=share, values=values or None)
        return Codec(name, size, share, values or None)
    if name == "randk":
        share = _parse_share(name, text, share_text)
        return Codec(name, functools.partial(randk_bytes, share=share), share)
    if name == POWER:
        return Codec(name, _of_unknown_shapes, rank=_parse_rank(text, share_text))
    if text not in FORMS:
        if has_share and name in FORMS:
            raise ValueError(f"{name} takes no parameter, not {text!r}")
        raise ValueError(unknown("codec", text, FORMS))
    if name in QUANTISED_BITS:
        return Codec(name, functools.partial(quantised_bytes, bits=QUANTISED_BITS[name]))
    item_bytes = FLOAT_BYTES if name == "none" else HALF_BYTES
    return Codec(name, lambda elements: item_bytes * elements)


def _parse_share(name: str, text: str, share_text: str) -> float:
    try:
        share = float(share_text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(
            f"{name} keeps a share of the numbers, above 0 and up to 1, such as {name}:0.01,"
            f" not {text!r}"
        )
    return share


def _parse_rank(text: str, rank_text: str) -> int:
    if not (rank_text.isascii() and rank_text.isdigit() and 1 <= int(rank_text[:9]) <= MOST_RANK):
        raise ValueError(
            f"{POWER} takes the rank of its matrices, 1 to {MOST_RANK}, such as {POWER}:2, not"
            f" {text!r}"
        )
    return int(rank_text)


def _of_unknown_shapes(_elements: int) -> int:
    raise ValueError(f"bytes of {POWER} depend on the shapes of a model's layers: measure a run")


class Factors(NamedTuple):
    """Of a layer that is sent as two thin matrices, rows x rank and columns x rank."""

    rows: int
    columns: int
    rank: int


def factors(shape: Sequence[int], rank: int) -> Factors | None:
    """None for a layer that would not shrink to less than half, as torch's own hook decides."""
    if len(shape) < 2:
        return None
    rows, columns = shape[0], math.prod(shape[1:])
    rank = min(rank, rows, columns)
    return Factors(rows, columns, rank) if 2 * (rows + columns) * rank < rows * columns else None


def factored_bytes(shapes: Sequence[Sequence[int]], rank: int) -> list[int]:
    """Of the two exchanges of a round: layers as they are with the first factors; the second."""
    found = [(math.prod(shape), factors(shape, rank)) for shape in shapes]
    first = sum(of.rows * of.rank if of else size for size, of in found)
    second = sum(of.columns * of.rank for _, of in found if of)
    return [FLOAT_BYTES * first, *([FLOAT_BYTES * second] if second else [])]


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


def topk_bytes(elements: int, share: float, values: str | None = None) -> int:
    """Values, and their places in their chunks, packed."""
    kept = sum(topk_counts(elements, share))
    return value_bytes(kept, values) + -(-kept * INDEX_BITS // 8)


def value_bytes(kept: int, values: str | None) -> int:
    """Of the numbers that top-k keeps, all together."""
    return FLOAT_BYTES * kept if values is None else quantised_bytes(kept, QUANTISED_BITS[values])


def randk_bytes(elements: int, share: float) -> int:
    """Values as float32."""
    return FLOAT_BYTES * kept_of(elements, share)


def takes_two_phases(codec: Codec, workers: int) -> bool:
    """Whether an all-reduce of what cannot be added up is cheaper in two phases.

    Two phases send 2(N-1)/N M, an all-gather (N-1) M. At N = 2 they are equal, and the all-gather
    encodes once instead of twice.
    """
    return not codec.adds_up and workers > 2
