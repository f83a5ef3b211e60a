"""Nodes and their links, what the host costs, and the result of a simulation: values. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cluster.spec.schedules.messages import Flow, Message

Floats = NDArray[np.float64]

BUFFERED_BYTES = 64 * 1024
"""Of a message in a socket's buffer: a sender goes on when the rest is there, and the receiver has
read all before."""
MOST_PARTS, FEWEST_PARTS = 512, 3
"""Parts of all messages of a round that follow each other, and of each of them."""


Rates = tuple[float, float, float]
"""A moment, and the bytes per second each way from then on."""


@dataclass(frozen=True)
class Path:
    """From one site to another: what all messages between them share."""

    rate: float = math.inf
    """Bytes per second."""
    delay_s: float = 0.0
    trace: tuple[tuple[float, float], ...] = ()
    """Moments, and the rate from then on."""


Paths = Mapping[tuple[int, int], Path]
"""By the numbers of the sender's and the receiver's site."""
NO_PATHS: Paths = MappingProxyType({})


@dataclass(frozen=True)
class Background:
    """Bytes that others send from one node to another without end, at no more than this rate."""

    source: int
    destination: int
    rate: float
    """Bytes per second."""


@dataclass(frozen=True)
class Node:
    """A node's link, in bytes per second each way, and its computing time in a round."""

    up: float = math.inf
    down: float = math.inf
    delay_s: float = 0.0
    """Of what it sends, and of what it receives."""
    burst_bytes: float = 0.0
    ack_share: float = 0.0
    """Acknowledgements that it sends, of the bytes that it receives."""
    compute_s: float = 0.0
    earlier_s: tuple[float, ...] = (0.0,)
    """By bucket: how long before computing ends it is ready to be exchanged. Buckets are exchanged
    one after the other."""
    site: int = 0
    trace: tuple[Rates, ...] = ()
    """When its link's rates change."""


@dataclass(frozen=True)
class Costs:
    """What the host adds: the first two are the only constants that are fitted to runs."""

    message_s: float = 0.0
    """Of a message, before its first byte leaves; a node handles one after the other."""
    byte_s: float = 0.0
    """Of a core, to move a byte from one node to another."""
    cores: float = math.inf
    """That all nodes share; infinite where every node has its own."""
    encodes: bool = False
    """Whether lossy codecs take time (analysis/predict/coding.py)."""

    def copy_s(self, chunk_bytes: float) -> float:
        """From when a chunk's last byte has come to when it has been read."""
        return self.byte_s * min(chunk_bytes, BUFFERED_BYTES)

    @property
    def bytes_per_s(self) -> float:
        """That the host moves for all nodes together."""
        return self.cores / self.byte_s if self.byte_s else math.inf


@dataclass(frozen=True)
class Timeline:
    """By round and node, in seconds from the start."""

    computed: Floats
    """When it had computed, and its last bucket was ready."""
    exchanged: Floats
    """When all of its messages had left and arrived."""

    @property
    def round_s(self) -> float:
        """Of the last half of the rounds, mean: the first ones begin together."""
        ends = self.exchanged.max(axis=1)
        first = len(ends) // 2
        begin = ends[first - 1] if first else 0.0
        return float(ends[-1] - begin) / (len(ends) - first)

    def median_round_s(self, period: int, nodes: int, first: int = 1) -> float:
        """Median over the first `nodes` nodes of a round's mean over `period` rounds in a row.

        As summaries have it (analysis/summary/step_times.py). The first rounds, which begin
        together, are left out where there are more.
        """
        rounds = len(self.exchanged)
        first = min(first, rounds - 1)
        width = min(period, rounds - first)
        ends = np.vstack([np.zeros(self.exchanged.shape[1]), self.exchanged])[first:, :nodes]
        return median(((ends[width:] - ends[:-width]) / width).ravel().tolist())


def chunk_sizes(message: Flow | Message, steps: int) -> tuple[float, ...]:
    """Bytes of the parts that are simulated; in many steps their number hardly matters.

    Fewer are quicker: parts are put together then.
    """
    count = min(math.ceil(message.parts), max(FEWEST_PARTS, MOST_PARTS // steps))
    whole = float(message.message_bytes if isinstance(message, Flow) else message.bytes)
    if not message.cuts:
        return (whole / count,) * count
    edges = [len(message.cuts) * place // count for place in range(count + 1)]
    return tuple(float(sum(message.cuts[begin:end])) for begin, end in pairwise(edges))


def last_stages(times: Sequence[Floats], buckets: int) -> Floats:
    """Of rounds of so many buckets: the times of the last one."""
    return np.array(times[buckets - 1 :: buckets])
