"""Sites: nodes in groups that are far from each other, as text and as values.

    a:3,b:3             nodes 0 to 2 are site a, nodes 3 to 5 site b
    a:1,b:1,a:1,b:1     nodes 0 and 2 are site a, nodes 1 and 3 site b

A part names the next ranks, so that a name may come again: text and sites follow from each other.
"""

import itertools
import re
from collections.abc import Iterable, Sequence

FORM = "NAME:NODES[,...], such as a:3,b:3"
MOST_SITES = 16
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")


def parse_sites(text: str) -> tuple[str, ...]:
    """The name of each node's site, by rank; ValueError for anything else."""
    sites: list[str] = []
    for part in text.split(","):
        name, _, count = (piece.strip() for piece in part.partition(":"))
        if not (count.isascii() and count.isdigit() and int(count[:6]) > 0 and len(count) < 6):
            raise ValueError(f"{part.strip()!r} is not {FORM}")
        sites += [check_name(name)] * int(count)
    if not 1 < len(set(sites)) <= MOST_SITES:
        raise ValueError(f"there must be 2 to {MOST_SITES} sites, not {len(set(sites))}")
    return tuple(sites)


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name of a site: use letters, digits and _, a letter first"
        )
    return name


def write_sites(sites: Iterable[str]) -> str:
    """The same sites are always the same text."""
    return ",".join(f"{name}:{len([*ranks])}" for name, ranks in itertools.groupby(sites))


def members(sites: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Site -> ranks, in the order of their first ranks."""
    return {
        name: tuple(rank for rank, site in enumerate(sites) if site == name)
        for name in dict.fromkeys(sites)
    }
