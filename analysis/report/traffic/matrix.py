"""The traffic matrix of a configuration: measured beside theory, and how far they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.report.page import Column, Row
from analysis.tables.configurations import Configuration
from analysis.tables.load import Runs
from analysis.theory.traffic_matrix import matrix
from cluster.observe.units import bytes_text, percent_text, percents
from cluster.spec.exchange.strategies import BY_SITE, facts_of, is_own
from cluster.spec.schedules.messages import Setting
from cluster.spec.sites import members, parse_sites

MOST_NODES = 48
"""A larger matrix is not drawn: its cells would be smaller than a finger."""
ADDS_UP = 0.01
"""Theory's matrix must match the prediction within this; older runs do not say their buffers."""
FAR = 0.05
"""A pair further off does not agree with theory; less is the library's framing."""
MISSING = 0.5
"""Of what the interfaces counted: with less, most ends of connections were not matched."""
COUNTED = (
    *("pairs_interface_payload_bytes", "pairs_interface_header_bytes"),
    "pairs_closed_connections",
)
COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("busiest pair", "pair", style="word"),
    Column("sent", "bytes", bytes_text),
    Column("sent / theory", "ratio", "{:.4f}".format),
    Column("furthest from theory", "furthest", style="word"),
    Column("its sent / theory", "furthest_ratio", "{:.4f}".format),
    Column("largest pair without predicted traffic / busiest pair", "beside", percents()),
    Column("all pairs / interfaces' payload", "whole", "{:.4f}".format),
    Column("headers / payload", "headers", percents(1)),
]
SITE_COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("from site", "from", style="word"),
    Column("to site", "to", style="word"),
    Column("in a round", "bytes", bytes_text),
    Column("theory", "theory", bytes_text),
    Column("of all", "share", percents()),
]

Matrix = NDArray[np.float64]
"""Bytes; rows send."""
Pair = tuple[int, int]
"""Sender, receiver."""


@dataclass(frozen=True)
class RunMatrices:
    """The bytes between pairs in one run's training, measured and predicted."""

    label: str
    measured: Matrix
    """As the senders counted, without control traffic."""
    predicted: Matrix
    counted: int
    """All pairs by their senders' counts, control traffic included."""
    differ: int
    """The largest difference between the sender's and the receiver's count of a pair."""
    payload: int
    """What the interfaces counted of the same, and its headers."""
    headers: int
    closed: int = 0
    has_control_traffic: bool = False
    """Workers send control traffic while each reads its counts."""

    @property
    def has_theory(self) -> bool:
        """Not of users' own programs."""
        return bool(self.predicted.any())

    @property
    def ratios(self) -> Matrix:
        """Measured over theory; NaN for pairs without predicted traffic."""
        nothing = np.full_like(self.measured, np.nan)
        return np.divide(self.measured, self.predicted, out=nothing, where=self.predicted > 0)

    @property
    def busiest(self) -> Pair:
        return _place_of_most(self.measured)

    @property
    def busiest_bytes(self) -> float:
        return float(self.measured.max())

    @property
    def furthest(self) -> Pair:
        """Of the pairs with predicted traffic, the one furthest from theory."""
        return _place_of_most(np.abs(self.ratios - 1))

    @property
    def furthest_ratio(self) -> float:
        return float(self.ratios[self.furthest])

    @property
    def unpredicted(self) -> float:
        """The largest pair without predicted traffic, as a share of the busiest."""
        most = float(self.measured[self.predicted == 0].max())
        return most / self.busiest_bytes if self.busiest_bytes else 0.0


def _place_of_most(values: Matrix) -> Pair:
    row, column = np.unravel_index(np.nanargmax(values), values.shape)
    return int(row), int(column)


def pair_name(pair: Pair) -> str:
    return f"node{pair[0]} to node{pair[1]}"


def findings(runs: Sequence[RunMatrices]) -> list[str]:
    """Of at least one measured run."""
    top = max(runs, key=lambda run: run.busiest_bytes)
    busiest = (
        f"Busiest pair: {pair_name(top.busiest)} of {top.label}, {bytes_text(top.busiest_bytes)},"
        f" {percent_text(top.busiest_bytes / top.counted, 0)} of all bytes sent."
    )
    return [*_agreement([run for run in runs if run.has_theory]), busiest, *_counts(runs)]


def _agreement(runs: Sequence[RunMatrices]) -> list[str]:
    if not runs:
        return []
    off = max(runs, key=lambda run: abs(run.furthest_ratio - 1))
    error = abs(off.furthest_ratio - 1)
    where = f"{pair_name(off.furthest)} of {off.label}, {off.furthest_ratio:.3f} times theory"
    beside = max(runs, key=lambda run: run.unpredicted)
    return [
        f"All pairs agree with theory within {percent_text(error, 1)}; furthest is {where}."
        if error <= FAR
        else f"Not all pairs agree with theory: {where}. Small messages include framing.",
        "Pairs without predicted traffic carry at most"
        f" {percent_text(beside.unpredicted)} of their run's busiest pair ({beside.label}):"
        " the library's acknowledgements, and barriers.",
    ]


def _counts(runs: Sequence[RunMatrices]) -> list[str]:
    payload = sum(run.payload for run in runs)
    share = percent_text(sum(run.counted for run in runs) / payload)
    headers = percent_text(sum(run.headers for run in runs) / payload, 1)
    found = [
        f"All pairs together are {share} of the interfaces' payload without retransmitted bytes;"
        f" packet headers add {headers}."
    ]
    if quiet := [run.differ for run in runs if not run.has_control_traffic]:
        found.append(
            f"Both ends of a connection count the same within {bytes_text(max(quiet))} per pair."
        )
    if controlled := [run.differ for run in runs if run.has_control_traffic]:
        found.append(
            f"With Horovod the two ends of a pair differ by up to {bytes_text(max(controlled))}:"
            " control traffic continues while each worker reads its counts."
        )
    if closed := [f"{run.closed} of {run.label}" for run in runs if run.closed]:
        found.append(f"Connections closed in training are missing: {', '.join(closed)}.")
    return found


def measured(runs: Runs, configuration: Configuration) -> RunMatrices | None:
    """Its first run whose connections were counted; all seeds send the same."""
    for number, run in configuration.runs.iterrows():
        pairs = runs.pairs[runs.pairs["number"] == number]
        is_predicted = pairs["predicted_bytes"].sum() or is_own(configuration.strategy)
        if not is_predicted or any(pd.isna(run[name]) for name in COUNTED):
            continue
        if pairs["sent_bytes"].sum() <= MISSING * run["pairs_interface_payload_bytes"]:
            continue
        nodes = configuration.workers + facts_of(configuration.strategy).has_server
        without_control = (pairs["sent_bytes"] - pairs["control_bytes"]).clip(lower=0)
        return RunMatrices(
            configuration.label,
            _square(pairs, without_control, nodes),
            _square(pairs, pairs["predicted_bytes"].fillna(0), nodes),
            counted=int(pairs["sent_bytes"].sum()),
            differ=int((pairs["sent_bytes"] - pairs["received_bytes"]).abs().max()),
            payload=int(run["pairs_interface_payload_bytes"]),
            headers=int(run["pairs_interface_header_bytes"]),
            closed=int(run["pairs_closed_connections"]),
            has_control_traffic=bool(pairs["control_bytes"].any()),
        )
    return None


def _square(pairs: pd.DataFrame, values: pd.Series[int], nodes: int) -> Matrix:
    found = np.zeros((nodes, nodes))
    found[pairs["sender"].to_numpy(int), pairs["receiver"].to_numpy(int)] = values
    return found


def table_row(configuration: Configuration, found: RunMatrices) -> Row:
    beside_theory = found.has_theory
    return {
        "configuration": configuration.label,
        "strategy": configuration.strategy,
        "pair": pair_name(found.busiest),
        "bytes": found.busiest_bytes,
        "ratio": float(found.ratios[found.busiest]) if beside_theory else None,
        "furthest": pair_name(found.furthest) if beside_theory else None,
        "furthest_ratio": found.furthest_ratio if beside_theory else None,
        "beside": found.unpredicted if beside_theory else None,
        "whole": found.counted / found.payload,
        "headers": found.headers / found.payload,
    }


@dataclass(frozen=True)
class Panel:
    """A configuration's matrix as the page shows it: bytes of a round."""

    label: str
    source: str
    values: Matrix
    theory: Matrix | None
    names: list[str]
    """Of nodes, as rows and columns have them: those of a site are neighbours."""
    per: str = "round"
    """What the bytes are of: a round, a program's step, or its whole run."""


def panel(configuration: Configuration, found: RunMatrices | None) -> Panel | None:
    """Theory only where nothing was counted; None where that does not add up, or is too large."""
    if found is not None and not found.has_theory:
        return _of_program(configuration, found)
    if found is None:
        theory = _theory(configuration)
        values, source = theory, "theory"
    else:
        rounds = max(1, int(configuration.row["rounds"]))
        theory, values = found.predicted / rounds, found.measured / rounds
        source = "measured"
    if theory is None or values is None or len(theory) > MOST_NODES:
        return None
    order, names = _by_site(configuration, len(values))
    places = np.ix_(order, order)
    return Panel(configuration.label, source, values[places], theory[places], names)


def _by_site(configuration: Configuration, nodes: int) -> tuple[list[int], list[str]]:
    """Ranks as rows and columns have them, and what they are called: 3, or 3 b in site b."""
    sites = sites_of(configuration)
    if not sites:
        return list(range(nodes)), list(map(str, range(nodes)))
    named = [(rank, f"{rank} {site}") for site, ranks in sites.items() for rank in ranks]
    return [rank for rank, _ in named], [name for _, name in named]


def sites_of(configuration: Configuration) -> dict[str, tuple[int, ...]]:
    """Site -> ranks; empty without sites."""
    text = configuration.row["sites"]
    return {} if pd.isna(text) else members(parse_sites(str(text)))


def between_sites(configuration: Configuration, found: RunMatrices | None) -> list[Row]:
    """Bytes of a round from each site to each, measured or else from theory."""
    sites, rounds = sites_of(configuration), max(1, int(configuration.row["rounds"]))
    theory = _theory(configuration) if found is None else found.predicted / rounds
    values = theory if found is None else found.measured / rounds
    if not sites or values is None or theory is None or not values.any():
        return []
    return [
        {
            "configuration": configuration.label,
            "strategy": configuration.strategy,
            "from": here,
            "to": there,
            "bytes": float(values[np.ix_(sites[here], sites[there])].sum()),
            "theory": float(theory[np.ix_(sites[here], sites[there])].sum()),
            "share": float(values[np.ix_(sites[here], sites[there])].sum() / values.sum()),
        }
        for here in sites
        for there in sites
    ]


def _of_program(configuration: Configuration, found: RunMatrices) -> Panel | None:
    if len(found.measured) > MOST_NODES:
        return None
    steps = configuration.row["steps"]
    per, count = ("run", 1) if pd.isna(steps) or not steps else ("step", int(steps))
    order, names = _by_site(configuration, len(found.measured))
    values = found.measured[np.ix_(order, order)] / count
    return Panel(configuration.label, "measured", values, None, names, per)


def _theory(configuration: Configuration) -> Matrix | None:
    if not facts_of(configuration.strategy).has_schedule:
        return None
    row, sites = configuration.row, sites_of(configuration)
    workers, rounds = configuration.workers, max(1, int(row["rounds"]))
    setting = Setting(
        workers=workers,
        model_bytes=int(row["model_bytes"]),
        compress="none" if pd.isna(row["compress"]) else str(row["compress"]),
        passes=None if pd.isna(row["passes"]) else int(row["passes"]),
        schedule=None if pd.isna(row["schedule"]) else str(row["schedule"]),
        seed=int(row["seed"]),
        sites=tuple(sites.values()),
        order=tuple(chain(*sites.values())) if row["ring_order"] == BY_SITE else None,
    )
    try:
        found = np.array(matrix(configuration.strategy, setting, rounds))
    except ValueError:  # a codec or schedule of another version
        return None
    mean = float(found[:workers].sum()) / workers
    predicted = row["predicted_per_step_bytes"]
    if pd.isna(predicted) or abs(mean * rounds / int(row["steps"]) - predicted) > ADDS_UP * mean:
        return None
    return found
