"""Which strategy on which links, and why, and who overtakes whom: by the fitted cost model. Pure."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from analysis.cost_model import Cluster
from analysis.crossovers import (
    Crossover,
    Stretch,
    crossovers,
    fastest,
    rates_mbit,
    worker_counts,
)
from analysis.fitted import FAR, Fitted
from cluster.strategies import STRATEGIES
from cluster.units import bytes_text, seconds_text

MOST_WORKERS = 1024
AVERAGE_LESS = ("pairwise", "local-sgd")
"""Not everybody with everybody at every step."""
UNKNOWN_IF_LEARNED = "Whether they learn as much, only runs of both can tell."


def clusters(model_bytes: int, rate_mbit: float, workers: int = 2) -> list[Cluster]:
    """All strategies with an exchange, each with what it is usually asked for."""
    return [
        Cluster(
            strategy=name,
            workers=workers,
            model_bytes=model_bytes,
            rate_mbit=rate_mbit,
            passes=1 if facts.has_passes else None,
            schedule="ring" if facts.has_passes else None,
            local_steps=facts.local_steps,
        )
        for name, facts in STRATEGIES.items()
        if facts.exchanges
    ]


class Answer(NamedTuple):
    ask: str
    say: str

    def __str__(self) -> str:
        return f"{self.ask} {self.say}"


def advice(
    model: Fitted, name: str, model_bytes: int, rate_mbit: float, workers: int, learned: str = ""
) -> Answer | None:
    """`learned`: what measured runs say of those that average less. None where the model knows no strategy."""
    asked = {
        one.strategy: one
        for one in clusters(model_bytes, rate_mbit, workers)
        if model.knows(one.strategy)
    }
    found = {strategy: model.forecast(one) for strategy, one in asked.items()}
    full = [strategy for strategy in asked if strategy not in AVERAGE_LESS]
    if not full:
        return None
    best, worst = (choose(full, key=lambda s: found[s].exchange_s) for choose in (min, max))
    text = (
        f"To average everything at every step: {best}, {seconds_text(found[best].exchange_s)} an exchange, since no node"
        f" carries more than {bytes_text(found[best].busiest_bytes)} (slowest: {worst},"
        f" {seconds_text(found[worst].exchange_s)}, since one node carries {bytes_text(found[worst].busiest_bytes)})."
    )
    less = [one for one in AVERAGE_LESS if one in found]
    if less:
        each = " and ".join(f"{one} {seconds_text(found[one].step_s)}" for one in less)
        text += f" To average less: {each} a step. {learned or UNKNOWN_IF_LEARNED}"
    text += (
        f" Times are predicted, for {workers} workers and the {bytes_text(model_bytes)} of {name}"
    )
    outside = model.outside(asked[best])
    text += f": orders of magnitude, {outside} of what was fitted." if outside else "."
    return Answer(f"Which strategy at {rate_mbit:g} Mbit, and why?", text)


def by_link(model: Fitted, model_bytes: int, workers: int) -> str:
    """Where on the scale of links the quickest changes, as far as was fitted; empty where it does not."""
    slow, quick = model.ranges["rate_mbit"]
    rates = [rate for rate in rates_mbit() if slow / FAR <= rate <= quick * FAR]
    asked = {one.strategy: one for one in clusters(model_bytes, slow, workers)}
    full = [s for s in asked if s not in AVERAGE_LESS and model.knows(s)]

    def step_s(strategy: str, rate: float) -> float:
        return model.forecast(dataclasses.replace(asked[strategy], rate_mbit=rate)).step_s

    stretches = fastest(full, rates, step_s)
    if len(stretches) < 2:
        return ""
    parts = [f"{', '.join(one.fastest)} up to {one.high:g} Mbit" for one in stretches[:-1]]
    return f"Quickest by link: {'; '.join(parts)}; then {', '.join(stretches[-1].fastest)}."


@dataclass(frozen=True)
class Sweep:
    """One of N and the link changes, the other stays."""

    by: str
    """workers or mbit."""
    stretches: tuple[Stretch, ...]
    """The quickest, of those that average everything at every step."""
    overtakings: tuple[tuple[Crossover, str], ...]
    """Of all pairs, in order; and what of it is outside of the fit."""


def sweeps(model: Fitted, asked: Sequence[Cluster]) -> list[Sweep]:
    """By workers and by link, from clusters that differ only in their strategy."""
    most = max(MOST_WORKERS, asked[0].workers)
    return [
        _sweep(model, asked, "workers", [float(count) for count in worker_counts(most)]),
        _sweep(model, asked, "mbit", rates_mbit()),
    ]


def _sweep(model: Fitted, asked: Sequence[Cluster], by: str, values: Sequence[float]) -> Sweep:
    named = {one.strategy: one for one in asked}
    whole = [name for name in named if name not in AVERAGE_LESS] or list(named)

    def at(name: str, value: float) -> Cluster:
        if by == "workers":
            return dataclasses.replace(named[name], workers=int(value))
        return dataclasses.replace(named[name], rate_mbit=value)

    @functools.cache
    def step_s(name: str, value: float) -> float:
        return model.forecast(at(name, value)).step_s

    found = [
        (crossing, model.outside(at(crossing.faster, crossing.at)))
        for one, other in combinations(named, 2)
        for crossing in crossovers(one, other, values, step_s)
    ]
    found.sort(key=lambda pair: pair[0].at)
    return Sweep(by, tuple(fastest(whole, values, step_s)), tuple(found))
