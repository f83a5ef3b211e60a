"""Nodes and their links, what the host costs, and the result of a simulation: values. Pure."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_PARTS = 4096
"""Chunks of all messages of a round that follow each other."""
EAGER_BYTES = 64 * 1024
"""A message up to this size leaves before its receiver has computed: the kernel keeps it."""


@dataclass(frozen=True)
class Node:
    """A node's link, in bytes per second each way, and its computing time in a round."""

    up: float = math.inf
    down: float = math.inf
    delay_s: float = 0.0
    """Of what it sends."""
    burst_bytes: float = 0.0
    compute_s: float = 0.0


@dataclass(frozen=True)
class Costs:
    """What the host adds: the only constants that are fitted to measured runs."""

    message_s: float = 0.0
    """Of a message, before its first byte leaves."""
    bytes_per_s: float = math.inf
    """That the host copies for all nodes together."""


@dataclass(frozen=True)
class Timeline:
    """By round and node, in seconds from the start."""

    computed: Floats
    """When it had computed."""
    exchanged: Floats
    """When all of its messages had left and arrived."""

    @property
    def round_s(self) -> float:
        """Of the last half of the rounds, mean: the first ones begin together."""
        ends = self.exchanged.max(axis=1)
        first = len(ends) // 2
        begin = ends[first - 1] if first else 0.0
        return float(ends[-1] - begin) / (len(ends) - first)


def chunk_count(parts: int, steps: int) -> int:
    """Parts that are simulated; in many steps their number hardly matters: fewer are quicker."""
    return max(1, min(parts, MOST_PARTS // steps))


def waits_for_receiver(size: float) -> bool:
    """Whether a message leaves only when its receiver has computed, too."""
    return size > EAGER_BYTES
