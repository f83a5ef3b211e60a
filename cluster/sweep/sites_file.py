"""A file that describes sites (TOML), read into the options that the same flags have.

[sites]
a = 3                 # the next three nodes; or ranks, a = [0, 2, 4], in all sites of the file
b = 3
"""

import tomllib
from pathlib import Path
from reprlib import repr as short
from typing import Any

from cluster.spec.errors import FileError, unknown
from cluster.spec.sites import check_name, write_sites

Options = dict[str, Any]

SUFFIX = ".toml"
MOST_BYTES = 1_000_000
MOST_RANK = 10_000
KEYS = ("sites", "between", "inside")


def is_file(value: object) -> bool:
    return isinstance(value, str) and value.endswith(SUFFIX)


def read_into(options: Options) -> Options:
    """The options of a run, those of its sites' file in place of its name."""
    name = options.get("sites")
    if not is_file(name):
        return options
    found = _read(str(name))
    for option in found:
        if option != "sites" and options.get(option) is not None:
            raise FileError(f"{option} is in {name} and is given beside it: leave out one")
    return {**options, **found}


def _read(name: str) -> Options:
    try:
        with Path(name).expanduser().open("rb") as file:
            document = tomllib.loads(file.read(MOST_BYTES).decode())
        return _options(document)
    except OSError as error:
        raise FileError(f"sites {name} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"sites {name}: {error}") from None


def _options(document: Options) -> Options:
    for key in document:
        if key not in KEYS:
            raise ValueError(unknown("key", key, KEYS))
    sites = document.get("sites")
    if not isinstance(sites, dict) or not sites:
        raise ValueError("there must be a table [sites], such as a = 3")
    links = {key: _links(key, document[key]) for key in KEYS[1:] if key in document}
    return {"sites": write_sites(_by_rank(sites)), **links}


def _links(key: str, table: object) -> str:
    """As the flag of this name has them; the Experiment checks names and links."""
    if not isinstance(table, dict) or not table:
        raise ValueError(f"{key} must be a table of links, such as [{key}], not {short(table)}")
    for name, link in table.items():
        if not isinstance(link, str) or "," in name + link:
            raise ValueError(f"{key}: {name} must be a link such as '50mbit', not {short(link)}")
    return ",".join(f"{name}:{link}" for name, link in table.items())


def _by_rank(sites: Options) -> list[str]:
    names = [check_name(name) for name in sites]
    if all(type(count) is int and 0 < count <= MOST_RANK for count in sites.values()):
        return [name for name in names for _ in range(sites[name])]
    by_rank: dict[int, str] = {}
    for name, ranks in sites.items():
        if not isinstance(ranks, list) or not all(type(rank) is int for rank in ranks):
            given = short(ranks)
            raise ValueError(f"site {name} must be a number of nodes, as others, or ranks: {given}")
        for rank in ranks:
            if rank in by_rank:
                raise ValueError(f"node {rank} is in site {by_rank[rank]} and in site {name}")
            by_rank[rank] = name
    if missing := set(range(len(by_rank))) - set(by_rank):
        raise ValueError(f"node {min(missing)} is in no site")
    return [by_rank[rank] for rank in sorted(by_rank)]
