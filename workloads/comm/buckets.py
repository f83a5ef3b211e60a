"""Buckets: the pieces in which a model is exchanged, whole tensors, last layers first. Pure.

Backward computes the last layers' gradients first, so a bucket of last layers can be sent while the
rest is still being computed. Many small buckets pay the latency of many messages; with a few large
ones the link idles until the first is full, and workers wait for the last. B buckets cost

    T/B + B t        T: time on the wire,  t: fixed cost of a bucket

which is least for B = sqrt(T/t) (`bucket_count`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

MIB = 2**20

HOP_S, HOP_BYTES = 0.00005, 342
"""t per hop of a ring on throttled links: what a message costs the host, and what it adds on the
wire, framing of 144 bytes and headers of three packets. Half of it is hidden, since Gloo sends a
piece in two segments. The simulator finds no sizes that are 2 % better: a test holds it to that."""

FREE_HOP_S = 0.0005
"""t per hop on unlimited links, where nodes wait for the host's cores: an all-reduce of a few
bytes, measured with 2 cores."""

FREE_LINK_MBIT = 5000
"""Approximate rate of an unlimited link while all nodes of a machine send."""


@dataclass(frozen=True)
class Bucket:
    part: int
    """Index into FlatModel.parts."""
    start: int
    end: int
    tensors: range
    """Indices of its tensors within the part."""


def split_into_buckets(
    parts: Sequence[Sequence[int]], item_bytes: Sequence[int], *size_bytes: int | None
) -> list[Bucket]:
    """Buckets of at least `size_bytes`; one per tensor for 0, one per part for None.

    `parts` are the offsets of each part's tensors, and the end of its last one. Of several sizes
    the first are those of the first buckets, and the last of all others.
    """
    buckets: list[Bucket] = []
    for index in reversed(range(len(parts))):
        offsets = parts[index]
        last = len(offsets) - 1
        for first in range(last - 1, -1, -1):
            bucket_bytes = (offsets[last] - offsets[first]) * item_bytes[index]
            least = size_bytes[min(len(buckets), len(size_bytes) - 1)]
            if first == 0 or (least is not None and bucket_bytes >= least):
                buckets.append(Bucket(index, offsets[first], offsets[last], range(first, last)))
                last = first
    return [bucket for bucket in buckets if bucket.end > bucket.start]


def bucket_count(model_bytes: int, workers: int, rate_mbit: float | None) -> int:
    """The number of buckets that hides most of a ring all-reduce behind backward."""
    if workers == 1:
        return 1
    sent_bytes = 2 * (workers - 1) / workers * model_bytes
    bytes_per_s = (rate_mbit or FREE_LINK_MBIT) * 1e6 / 8
    hop_s = HOP_S + HOP_BYTES / bytes_per_s if rate_mbit else FREE_HOP_S
    per_bucket_s = 2 * (workers - 1) * hop_s
    return max(1, round(math.sqrt(sent_bytes / bytes_per_s / per_bucket_s)))
