"""In what pieces a model is exchanged: buckets of whole tensors, the last layers first. Pure.

Backward computes the last layers' gradients first, so in this order a bucket can leave while the rest
is still being computed. With many small buckets each pays for its messages' latency; with a few large
ones the link waits for the first to fill, and everybody for the last to arrive. For B buckets the two
cost  T/B + B t,  where T is the time on the wire and t what a bucket costs by itself: least for
B = sqrt(T/t), which is what `bucket_count` takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MIB = 2**20

HOP_S = 0.0005
"""t per hop: what an all-reduce of next to nothing takes on free links, on a 2-core machine."""

THROTTLED_HOP_S = 0.00005
"""The same on a throttled link, which makes up for a pause between buckets with its burst; so it was found."""

FREE_LINK_MBIT = 5000
"""What a link that nobody throttled carries, roughly, while all nodes of a machine send."""


@dataclass(frozen=True)
class Bucket:
    part: int
    """Index into FlatModel.parts."""
    start: int
    end: int
    tensors: range
    """Indices of the part's tensors in it."""


def cut(
    parts: Sequence[Sequence[int]], item_bytes: Sequence[int], size: int | None
) -> list[Bucket]:
    """Buckets of at least `size` bytes, one per tensor for 0, one per part for None.

    `parts` are the offsets of each part's tensors, with the end of the last one.
    """
    buckets = []
    for index in reversed(range(len(parts))):
        offsets = parts[index]
        last = len(offsets) - 1
        for first in range(last - 1, -1, -1):
            full = size is not None and (offsets[last] - offsets[first]) * item_bytes[index] >= size
            if full or first == 0:
                buckets.append(Bucket(index, offsets[first], offsets[last], range(first, last)))
                last = first
    return [bucket for bucket in buckets if bucket.end > bucket.start]


def bucket_count(sent_bytes: int, workers: int, rate_mbit: float | None) -> int:
    """The number that hides most of a ring all-reduce behind backward (the derivation is above)."""
    if workers == 1:
        return 1
    on_the_wire_s = (
        2 * (workers - 1) / workers * sent_bytes * 8 / ((rate_mbit or FREE_LINK_MBIT) * 1e6)
    )
    per_bucket_s = 2 * (workers - 1) * (THROTTLED_HOP_S if rate_mbit else HOP_S)
    return max(1, round(math.sqrt(on_the_wire_s / per_bucket_s)))
