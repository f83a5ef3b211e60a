"""The N x N matrix: bytes that each node sends to each other in a round, from the definition of a strategy. Pure.

Rows send, columns receive. Row sums are what theory.py says a rank sends, column sums what it receives; a test
holds the two together, and another the matrix and what connections carried. In a star all send to the centre and back,
in a tree along its edges; buffers that are broadcast go down the tree from rank 0. On a ring everyone sends to one
neighbour, and which one is the library's choice: Gloo's all-reduce goes to the rank before, all that is written out
with send and receive to the next, and so does Gloo's all-gather.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from analysis.theory.predicted_bytes import Setting, resolve
from cluster.spec.schedules import groups, period

Matrix = list[list[float]]


def matrix(
    strategy: str,
    setting: Setting,
    *,
    buffers: str = "local",
    buffer_bytes: int = 0,
    order: Sequence[int] | None = None,
) -> Matrix:
    """Mean over rounds, by rank; a server is the last. Buffers as in theory.predict().

    `order` is for Horovod, which carries all rings and gives workers ranks of its own: ours, in the order of its.
    """
    if buffers == "average":
        setting = replace(setting, model_bytes=setting.model_bytes + buffer_bytes)
    edges = EDGES[strategy](setting) if order is None else _by_horovod(strategy, setting, order)
    if buffers == "broadcast" and strategy != "single":
        edges = [*edges, *_broadcast(order or range(setting.workers), buffer_bytes)]
    found: dict[tuple[int, int], float] = {}
    for sender, receiver, count in edges:
        found[sender, receiver] = found.get((sender, receiver), 0) + count
    nodes = setting.workers + (strategy == "parameter-server")
    return [[found.get((i, j), 0.0) for j in range(nodes)] for i in range(nodes)]


Edges = Iterable[tuple[int, int, float]]


def _nothing(setting: Setting) -> Edges:
    return []


def _to_the_next(members: Sequence[int], count: float) -> Edges:
    if len(members) > 1:
        for place, rank in enumerate(members):
            yield members[place - 1], rank, count


def _to_the_one_before(members: Sequence[int], count: float) -> Edges:
    return _to_the_next(members[::-1], count)


def _ring_bytes(members: int, setting: Setting) -> float:
    return 2 * (members - 1) * setting.model_bytes / members


def _ring(setting: Setting) -> Edges:
    return _to_the_next(range(setting.workers), _ring_bytes(setting.workers, setting))


def _allreduce(setting: Setting) -> Edges:
    return _to_the_one_before(range(setting.workers), _ring_bytes(setting.workers, setting))


def _allgather(setting: Setting) -> Edges:
    return _to_the_next(range(setting.workers), (setting.workers - 1) * setting.model_bytes)


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


def _broadcast(order: Sequence[int], count: float) -> Edges:
    """Down a binomial tree from rank 0, over the ranks that the library gives."""
    root, n = order.index(0), len(order)
    at = [order[(root + place) % n] for place in range(n)]
    for place in range(1, n):
        yield at[place & (place - 1)], at[place], count


def _pairwise(setting: Setting) -> Edges:
    """Everybody in one group is an all-reduce, a smaller group a ring of its own."""
    for members, share in _meetings(setting):
        way = _to_the_next if len(members) < setting.workers else _to_the_one_before
        yield from way(members, _ring_bytes(len(members), setting) * share)


def _meetings(setting: Setting) -> Iterable[tuple[tuple[int, ...], float]]:
    """Groups, and in what share of the rounds they meet."""
    assert setting.passes is not None
    n, passes, rounds = setting.workers, setting.passes, setting.rounds
    schedule = resolve(n, passes, setting.schedule, setting.seed)
    repeats = period(n, passes, schedule) or rounds
    for t in range(min(rounds, repeats)):
        times = (rounds - 1 - t) // repeats + 1
        for members in groups(t, n, passes, schedule, setting.seed):
            yield members, times / rounds


def _by_horovod(strategy: str, setting: Setting, order: Sequence[int]) -> Edges:
    """Its rings follow its own ranks, those of groups too; a star's centre is ours."""
    if strategy == "pairwise":
        for members, share in _meetings(setting):
            ring = sorted(members, key=order.index)
            yield from _to_the_one_before(ring, _ring_bytes(len(ring), setting) * share)
    elif strategy == "gather-scatter":
        yield from _gather_scatter(setting)
    else:
        for sender, receiver, count in EDGES[strategy](setting):
            yield order[sender], order[receiver], count


EDGES: dict[str, Callable[[Setting], Edges]] = {
    "single": _nothing,
    "allreduce": _allreduce,
    "ring": _ring,
    "allgather": _allgather,
    "gather-scatter": _gather_scatter,
    "reduce-broadcast": _tree,
    "parameter-server": _parameter_server,
    "ddp": _allreduce,
    "pairwise": _pairwise,
    "local-sgd": _allreduce,
}
