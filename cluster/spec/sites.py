"""Sites: nodes in groups that are far from each other, as text and as values.

    a:3,b:3             nodes 0 to 2 are site a, nodes 3 to 5 site b
    a:1,b:1,a:1,b:1     nodes 0 and 2 are site a, nodes 1 and 3 site b

A part names the next ranks, so that a name may come again: text and sites follow from each other.

    a-b:50mbit/40ms     all that goes from site a to site b, or back, shares a path of 50 Mbit/s
                        each way, which takes 40 ms
    a:1gbit             every node of site a has this link
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from cluster.spec.links import Link, parse_link

FORM = "NAME:NODES[,...], such as a:3,b:3"
BETWEEN_FORM = "SITE-SITE:LINK, such as a-b:50mbit/40ms"
INSIDE_FORM = "SITE:LINK, such as a:1gbit"
MOST_SITES = 8
Pair = tuple[str, str]
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


def parse_between(text: str, sites: Iterable[str]) -> dict[Pair, Link]:
    """The paths between sites, each once, as seen from the site that comes first."""
    order = list(dict.fromkeys(sites))
    paths: dict[Pair, Link] = {}
    for part in text.split(","):
        pair, _, link = (piece.strip() for piece in part.partition(":"))
        ends = [end.strip() for end in pair.split("-")]
        if not link or len(ends) != 2:
            raise ValueError(f"{part.strip()!r} is not {BETWEEN_FORM}")
        for end in ends:
            _check_known(end, order)
        if ends[0] == ends[1]:
            raise ValueError(f"{pair!r} is one site: use --inside {ends[0]}:{link}")
        path = parse_link(link)
        if order.index(ends[0]) > order.index(ends[1]):
            ends, path = ends[::-1], path.reversed
        if (ends[0], ends[1]) in paths:
            raise ValueError(f"{path_name((ends[0], ends[1]))} is named twice")
        paths[ends[0], ends[1]] = path
    return dict(sorted(paths.items(), key=lambda item: tuple(map(order.index, item[0]))))


def parse_inside(text: str, sites: Iterable[str]) -> dict[str, Link]:
    """The links that the nodes of a site have, by site."""
    order = list(dict.fromkeys(sites))
    links: dict[str, Link] = {}
    for part in text.split(","):
        site, _, link = (piece.strip() for piece in part.partition(":"))
        if not link:
            raise ValueError(f"{part.strip()!r} is not {INSIDE_FORM}")
        _check_known(site, order)
        if site in links:
            raise ValueError(f"site {site} is named twice")
        links[site] = parse_link(link)
    return {site: links[site] for site in order if site in links}


def path_name(pair: Pair) -> str:
    return "-".join(pair)


def write_between(paths: Mapping[Pair, Link]) -> str:
    return ",".join(f"{path_name(pair)}:{link}" for pair, link in paths.items())


def write_inside(links: Mapping[str, Link]) -> str:
    return ",".join(f"{site}:{link}" for site, link in links.items())


def _check_known(site: str, sites: Sequence[str]) -> None:
    if site not in sites:
        raise ValueError(f"there is no site {site!r}, the sites are {', '.join(sites)}")
