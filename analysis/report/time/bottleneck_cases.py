"""Runs of a session that differ only in which nodes are slow (bottlenecks, stragglers).

A study fits in one figure: the same nodes, model and links, and the same cases. Each of its
comparisons is one strategy in every case; all other options are equal in its runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.tables.columns import OPTIONS
from analysis.tables.contention import by_verdict, without_verdict
from analysis.tables.labels import differing, labels
from analysis.tables.load import Runs
from cluster.observe.units import link_text
from cluster.spec.links import parse_cores, parse_links
from cluster.spec.sites import parse_sites

SLOW = ("bottleneck", "straggler")
"""Options in which the cases of a comparison differ."""
GIVEN = ("session", "engine", "workers", "model", "link", "cpus")
"""Options that all runs of a study share, whatever their strategy."""
SAME = (*GIVEN, "strategy", "passes", "schedule", *(k for k in OPTIONS if k not in (*GIVEN, *SLOW)))


MEASURED = (
    *("step_median_s", "compute_median_s", "exposed_communication_median_s", "waiting_median_s"),
    "waits_mostly_for",
)
"""What a summary says of a node; a Node has the same names."""


@dataclass(frozen=True, kw_only=True)
class Node:
    rank: int
    site: str | None = None
    is_slow: bool
    step_median_s: float
    slow_down: float | None
    """Of its step, relative to the case without slow nodes."""
    compute_median_s: float | None
    exposed_communication_median_s: float | None
    waiting_median_s: float | None
    waits_mostly_for: int | None


@dataclass(frozen=True)
class Case:
    run: str
    bottleneck: str | None
    straggler: str | None
    bound_s: float | None
    """The least time that a step's exchange can take on these links."""
    nodes: tuple[Node, ...]
    """Nodes that train; a parameter server has no steps."""
    contended: str = ""
    """Why its times allow no conclusion, as recorded; empty where they do."""
    has_verdict: bool = False
    """Whether contention was recorded."""

    @property
    def slow_ranks(self) -> tuple[int, ...]:
        return slow_ranks(self.bottleneck, self.straggler)

    @property
    def slow_downs(self) -> list[float]:
        return [node.slow_down for node in self.nodes if node.slow_down is not None]

    @property
    def step_s(self) -> float:
        """Of the slowest node."""
        return max(node.step_median_s for node in self.nodes)


@dataclass(frozen=True)
class Comparison:
    """One strategy; the first case is the one without slow nodes, if there is one."""

    strategy: str
    label: str
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Study:
    session: str
    title: str
    comparisons: tuple[Comparison, ...]


def slow_ranks(bottleneck: str | None, straggler: str | None) -> tuple[int, ...]:
    by_link = parse_links(bottleneck) if bottleneck else {}
    by_cpu = parse_cores(straggler) if straggler else {}
    return tuple(sorted({*by_link, *by_cpu}))


def find_studies(runs: Runs) -> list[Study]:
    """In the order of the runs; empty where no two runs differ only in their slow nodes."""
    known = runs.nodes.dropna(subset="step_median_s")
    with_steps = runs.completed[runs.completed.index.isin(known["number"])]
    groups: dict[Hashable, list[pd.DataFrame]] = {}
    for _, rows in with_steps.groupby(list(SAME), sort=False, dropna=False):
        if len(rows) == 1:
            continue
        rows = rows.drop_duplicates(list(SLOW)).sort_values(
            list(SLOW), key=lambda column: column.notna(), kind="stable"
        )
        if len(rows) > 1:
            cases = tuple(zip(*(rows[name].fillna("") for name in SLOW), strict=True))
            given = tuple(str(rows.iloc[0][name]) for name in GIVEN)
            groups.setdefault((given, cases), []).append(rows)
    return [_study(comparisons, known) for comparisons in groups.values()]


def _study(comparisons: list[pd.DataFrame], nodes: pd.DataFrame) -> Study:
    first = comparisons[0].iloc[0]
    options = [k for k in differing(pd.concat(comparisons)) if k not in (*GIVEN, *SLOW)]
    given = [f"{first['workers']} workers", f"model {first['model']}"]
    given += [] if pd.isna(first["link"]) else [f"{link_text(str(first['link']))} links"]
    given += [] if pd.isna(first["cpus"]) else [f"{first['cpus']:g} cores per node"]
    names = labels([rows.iloc[0] for rows in comparisons], options, with_workers=False)
    return Study(
        session=str(first["session"]),
        title=", ".join(given),
        comparisons=tuple(
            Comparison(
                strategy=str(rows.iloc[0]["strategy"]), label=name, cases=_cases(rows, nodes)
            )
            for rows, name in zip(comparisons, names, strict=True)
        ),
    )


def _cases(rows: pd.DataFrame, nodes: pd.DataFrame) -> tuple[Case, ...]:
    usual: dict[int, float] = {}
    cases = []
    contended, unknown = by_verdict(rows), without_verdict(rows)
    for number, row in rows.iterrows():
        bottleneck, straggler = (_known(row[name]) for name in SLOW)
        slow = slow_ranks(bottleneck, straggler)
        entries = nodes[nodes["number"] == number]
        if not slow:
            usual = dict(zip(entries["rank"], entries["step_median_s"], strict=True))
        cases.append(
            Case(
                run=str(row["run"]),
                bottleneck=bottleneck,
                straggler=straggler,
                bound_s=_known(row["communication_bound_s"]),
                nodes=_nodes(row, entries, slow, usual),
                contended=contended.get(int(str(number)), ""),
                has_verdict=number not in unknown.index,
            )
        )
    return tuple(cases)


def _nodes(
    row: pd.Series[Any], entries: pd.DataFrame, slow: Iterable[int], usual: dict[int, float]
) -> tuple[Node, ...]:
    """Those of a site are neighbours."""
    sites = parse_sites(str(row["sites"])) if _known(row["sites"]) else ()
    order = list(dict.fromkeys(sites))
    nodes = [_node(entry, slow, usual, sites) for _, entry in entries.iterrows()]
    return tuple(sorted(nodes, key=lambda node: order.index(node.site) if node.site else 0))


def _node(
    entry: pd.Series[Any], slow: Iterable[int], usual: dict[int, float], sites: Sequence[str]
) -> Node:
    rank, step_s = int(entry["rank"]), float(entry["step_median_s"])
    slow_down = step_s / usual[rank] if usual.get(rank) else None
    numbers = {name: _known(entry[name]) for name in MEASURED}
    site = sites[rank] if rank < len(sites) else None
    return Node(rank=rank, site=site, is_slow=rank in slow, slow_down=slow_down, **numbers)


def _known(value: Any) -> Any:
    return None if pd.isna(value) else value
