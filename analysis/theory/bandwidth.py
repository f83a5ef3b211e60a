"""Algorithm and bus bandwidth of an exchange, as nccl-tests defines them. Pure.

With S bytes and t seconds for one collective operation among n ranks:

    algorithm bandwidth   algbw = S / t
    bus bandwidth         busbw = algbw x 2(n-1)/n     all-reduce, S the size of the vector
                          busbw = algbw x (n-1)/n      all-gather, S the size of the n vectors

busbw does not depend on n where links are used as well as they can be, so it compares with what a
link can carry. Which operation's result a strategy delivers is in its record: among all workers, or
among the P+1 of a group. A star's low busbw says how much worse than a ring it uses the links.

Utilisation is that of the busiest link: the bytes it must carry, headers included, over what it
could have carried in that time. It is the lower bound of the exchange over the time it took.
"""

from dataclasses import dataclass

from cluster.spec.strategies import facts_of


@dataclass(frozen=True)
class Bandwidth:
    """Bytes a second."""

    algbw: float
    busbw: float


def bandwidth(
    strategy: str, workers: int, passes: int | None, model_bytes: int, time_s: float
) -> Bandwidth:
    ranks = workers if passes is None else min(passes + 1, workers)
    if facts_of(strategy).collective == "all-gather":
        algbw = ranks * model_bytes / time_s
        return Bandwidth(algbw, algbw * (ranks - 1) / ranks)
    algbw = model_bytes / time_s
    return Bandwidth(algbw, algbw * 2 * (ranks - 1) / ranks)
