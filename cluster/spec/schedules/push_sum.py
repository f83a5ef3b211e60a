"""Stochastic gradient push: the directed exponential graph, and the messages of a round.

In round t every worker sends to the one 2^(t mod L) places on, L = log2 N rounded up, and gets from
the one as many places before. Nobody waits for the one that it sends to. Push-sum's weight goes
with every tensor, as one more number.
"""

from cluster.spec.schedules.messages import Flow, Messages, Setting
from cluster.spec.schedules.pairwise import EVERY_ROUND, Repeat


def levels(workers: int) -> int:
    """Rounds after which the same messages come again."""
    return (workers - 1).bit_length()


def distance(index: int, workers: int) -> int:
    """To the worker that is sent to in this round."""
    return int(2 ** (index % levels(workers)))


def push_sum(index: int, setting: Setting) -> Messages:
    workers = setting.workers
    if workers == 1:
        return ()
    ranks = tuple(range(workers))
    hop = distance(setting.first_round + index, workers)
    weights = setting.item_bytes * max(1, len(setting.bucket_bytes))
    destinations = tuple((rank + hop) % workers for rank in ranks)
    return (Flow(ranks, destinations, setting.exchanged_bytes + weights),)


def repeat(setting: Setting) -> Repeat:
    return Repeat(levels(setting.workers), 0) if setting.workers > 1 else EVERY_ROUND
