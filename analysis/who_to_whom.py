"""The N x N matrix: bytes that each node sends to each other in a round, from the definition of a strategy. Pure.

Rows send, columns receive. Row sums are what theory.py says a rank sends, column sums what it receives; a test
holds the two together. On a ring everyone sends to the next rank, in a star all to the centre and back, in a
tree along its edges; buffers that are broadcast go down the tree from rank 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from analysis.theory import Setting, resolve
from workloads.groups import groups, period

Matrix = list[list[float]]
RANDOM_ROUNDS = 200
"""Random groups never repeat: this many are averaged over, or all where there are fewer."""


def matrix(strategy: str, setting: Setting) -> Matrix:
    """Mean over rounds, by rank; a server is the last."""
    found: dict[tuple[int, int], float] = {}
    for sender, receiver, count in EDGES[strategy](setting):
        found[sender, receiver] = found.get((sender, receiver), 0) + count
    nodes = setting.workers + (strategy == "parameter-server")
    return [[found.get((i, j), 0.0) for j in range(nodes)] for i in range(nodes)]


Edges = Iterable[tuple[int, int, float]]


def _nothing(setting: Setting) -> Edges:
    return []


def _ring(members: tuple[int, ...], count: float) -> Edges:
    if len(members) < 2:
        return
    for place, rank in enumerate(members):
        yield rank, members[(place + 1) % len(members)], count


def _allreduce(setting: Setting) -> Edges:
    n = setting.workers
    return _ring(tuple(range(n)), 2 * (n - 1) * setting.model_bytes / n)


def _allgather(setting: Setting) -> Edges:
    return _ring(tuple(range(setting.workers)), (setting.workers - 1) * setting.model_bytes)


def _star(centre: int, leaves: Iterable[int], count: float) -> Edges:
    for leaf in leaves:
        yield leaf, centre, count
        yield centre, leaf, count


def _gather_scatter(setting: Setting) -> Edges:
    return _star(0, range(1, setting.workers), setting.model_bytes)


def _parameter_server(setting: Setting) -> Edges:
    return _star(setting.workers, range(setting.workers), setting.model_bytes)


def _tree(setting: Setting) -> Edges:
    """Rank r hangs below r without its lowest binary 1."""
    for rank in range(1, setting.workers):
        yield from _star(rank & (rank - 1), [rank], setting.model_bytes)


def _pairwise(setting: Setting) -> Edges:
    assert setting.passes is not None
    n, passes = setting.workers, setting.passes
    schedule = resolve(n, passes, setting.schedule, setting.seed)
    repeats = period(n, passes, schedule)
    rounds = setting.rounds if repeats else min(setting.rounds, RANDOM_ROUNDS)
    for t in range(min(rounds, repeats or rounds)):
        times = (rounds - 1 - t) // (repeats or rounds) + 1
        for members in groups(t, n, passes, schedule, setting.seed):
            size = len(members)
            yield from _ring(members, 2 * (size - 1) * setting.model_bytes / size * times / rounds)


EDGES: dict[str, Callable[[Setting], Edges]] = {
    "single": _nothing,
    "allreduce": _allreduce,
    "ring": _allreduce,
    "allgather": _allgather,
    "gather-scatter": _gather_scatter,
    "reduce-broadcast": _tree,
    "parameter-server": _parameter_server,
    "ddp": _allreduce,
    "pairwise": _pairwise,
    "local-sgd": _allreduce,
}
