"""Two-level all-reduce over sites: who owns which piece of the model, and the messages of a round.

M is cut into as many pieces as the largest site has workers. In each site every piece has an owner,
neighbouring pieces where a smaller site has fewer workers:

    inside    every worker sends every other one of its site the pieces which that one owns, and
              adds up what it gets of its own
    between   the owners of a piece, one in each site, average it round a ring (two: a swap)
    inside    every owner sends its pieces to all others of its site

With S sites of g workers each a worker sends 2(g-1)/g M inside and 2(S-1)/S M/g between, 2(N-1)/N M
in all, as with a ring. But only 2(S-1)/S M leave a site, by all of its workers' links at once, in
2(S-1) messages one after the other; round a ring that visits site after site 2(N-1)/N M do, in
2(N-1).
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from cluster.spec.schedules.messages import Flow, Messages, Setting, step_count

Sites = Sequence[Sequence[int]]
"""Ranks of the workers of each site."""


def owners(sites: Sites) -> list[tuple[int, ...]]:
    """Of each piece, one worker in each site."""
    pieces = max(map(len, sites))
    return [
        tuple(members[piece * len(members) // pieces] for members in sites)
        for piece in range(pieces)
    ]


def pieces_of(sites: Sites) -> dict[int, range]:
    """The pieces that each worker owns: neighbours, at least one."""
    found: dict[int, range] = {}
    for piece, of in enumerate(owners(sites)):
        for rank in of:
            found[rank] = range(found[rank].start if rank in found else piece, piece + 1)
    return found


def hierarchical(_index: int, setting: Setting) -> Messages:
    """Without sites all workers are one: pieces to their owners, means back."""
    sites = setting.sites or (tuple(range(setting.workers)),)
    of, size = pieces_of(sites), setting.exchanged_bytes
    piece = Fraction(size, len(owners(sites)))
    up = [
        Flow((source,), (owner,), len(of[owner]) * piece, in_step=True)
        for members in sites
        for owner in members
        for source in members
        if source != owner
    ]
    between = tuple(_between(owners(sites), piece))
    last = max(1, step_count(between))
    down = [Flow(f.destinations, f.sources, f.message_bytes, last, in_step=True) for f in up]
    return (*_joined(up), *between, *_joined(down))


def _between(owned_by: Sequence[tuple[int, ...]], piece: Fraction) -> Iterator[Flow]:
    """A ring for every piece; an owner averages its pieces one after the other."""
    turns: list[int] = []
    for at, of in enumerate(owned_by):
        before = [turns[k] for k in range(at) if set(owned_by[k]) & set(of)]
        turns.append(1 + max(before, default=-1))
    sites = len(owned_by[0])
    if sites == 1:
        return
    message, count = (piece, 1) if sites == 2 else (piece / sites, 2 * (sites - 1))
    for turn in sorted(set(turns)):
        now = [of for of, own in zip(owned_by, turns, strict=True) if own == turn]
        sources = tuple(rank for of in now for rank in of)
        to_next = tuple(rank for of in now for rank in (*of[1:], of[0]))
        yield Flow(sources, to_next, message, 1 + turn * count, count, in_step=True)


def _joined(flows: Sequence[Flow]) -> Iterator[Flow]:
    """Equal messages of a step as one flow."""
    for size in dict.fromkeys(flow.message_bytes for flow in flows):
        same = [flow for flow in flows if flow.message_bytes == size]
        sources = tuple(flow.sources[0] for flow in same)
        destinations = tuple(flow.destinations[0] for flow in same)
        yield Flow(sources, destinations, size, same[0].step, in_step=True)
