"""gather-scatter: gradients are gathered at a root, averaged there, and the mean is sent back.

A leaf sends M per round, the root (N-1) M: 2(N-1)/N M on average, but all of it passes the root's link.
What first courses write with gather and scatter; a slow root slows everybody, a slow leaf much less.

The root receives, adds and sends at the same time (workloads/comm/star.py): a round takes (N-1) M over the
root's rate, not twice that.
"""

from __future__ import annotations

from torch import Tensor

from workloads.comm.star import at_a_leaf, at_the_centre
from workloads.strategies.round import Round

ROOT = 0


def exchange(flat: Tensor, round: Round) -> None:
    workers = round.experiment.workers
    if workers == 1:
        return
    if round.rank == ROOT:
        leaves = range(1, workers)
        at_the_centre(flat, leaves, lambda _, chunk: chunk.div_(round.divisor))
    else:
        at_a_leaf(flat, ROOT)
