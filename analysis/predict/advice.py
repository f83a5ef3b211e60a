"""Which strategy on which links, and why, and who overtakes whom: by the fitted cost model. Pure."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from analysis.predict.cost_model import Cluster, Forecast
from analysis.predict.crossovers import (
    Crossover,
    Stretch,
    crossovers,
    fastest,
    rates_mbit,
    worker_counts,
)
from analysis.predict.fitted import FAR, Fitted
from cluster.observe.units import bytes_text, seconds_text
from cluster.spec.strategies import STRATEGIES

MOST_WORKERS = 1024
AVERAGE_LESS = ("pairwise", "local-sgd")
"""Not everybody with everybody at every step."""
NEAR = 0.2
"""Of an exchange: bytes that take as long, give or take this share, are its reason."""
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


class Step(NamedTuple):
    """What a step of some configuration took, measured on such links."""

    strategy: str
    label: str
    seconds: float


def advice(
    model: Fitted,
    name: str,
    model_bytes: int,
    rate_mbit: float,
    workers: int,
    learned: str = "",
    measured: Sequence[Step] = (),
) -> Answer | None:
    """`learned`: what runs say of those that average less. What is `measured` is not predicted.

    None where nothing is measured and the model knows no strategy.
    """
    strategies = {step.strategy for step in measured}
    asked = {
        one.strategy: one
        for one in clusters(model_bytes, rate_mbit, workers)
        if model.knows(one.strategy) and one.strategy not in strategies
    }
    found = {strategy: model.forecast(one) for strategy, one in asked.items()}
    whose = f"for {workers} workers and the {bytes_text(model_bytes)} of {name}"
    if measured:
        text = f"{_of_measured(measured, learned)} Medians of a step, computing and all, {whose}."
        if found:
            each = ", ".join(f"{one} {seconds_text(found[one].step_s)}" for one in found)
            text += f" Not measured but predicted, without computing: {each}."
        return Answer(f"Which strategy at {rate_mbit:g} Mbit, measured?", text)
    full = [strategy for strategy in asked if strategy not in AVERAGE_LESS]
    if not full:
        return None
    best, worst = (choose(full, key=lambda s: found[s].exchange_s) for choose in (min, max))
    most = bytes_text(found[best].busiest_bytes)
    why = (
        f"since no node carries more than {most}"
        if _carrying(found[best], rate_mbit)
        else f"in which no node carries more than {most}"
    )
    text = (
        f"To average everything at every step: {best}, {seconds_text(found[best].exchange_s)} an exchange, {why}"
        f" (slowest: {worst}, {seconds_text(found[worst].exchange_s)}{_why_slow(found[worst], rate_mbit)})."
    )
    less = [one for one in AVERAGE_LESS if one in found]
    if less:
        each = " and ".join(f"{one} {seconds_text(found[one].step_s)}" for one in less)
        text += f" To average less: {each} a step. {learned or UNKNOWN_IF_LEARNED}"
    text += f" Times are predicted, {whose}"
    outside = model.outside(asked[best])
    text += f": orders of magnitude, {outside} of what was fitted." if outside else "."
    return Answer(f"Which strategy at {rate_mbit:g} Mbit, and why?", text)


def _of_measured(measured: Sequence[Step], learned: str) -> str:
    steps = sorted(measured, key=lambda step: step.seconds)
    full = [step for step in steps if step.strategy not in AVERAGE_LESS]
    less = [step for step in steps if step.strategy in AVERAGE_LESS]
    said = []
    if full:
        slowest = f" (slowest: {full[-1].label}, {seconds_text(full[-1].seconds)})"
        said.append(
            f"To average everything at every step: {full[0].label}, {seconds_text(full[0].seconds)}"
            f"{slowest if len(full) > 1 else ''}, measured."
        )
    if less:
        each = "; ".join(f"{step.label}, {seconds_text(step.seconds)}" for step in less)
        said.append(f"To average less: {each}, measured.")
    if learned:
        said.append(learned)
    return " ".join(said)


def _carrying(found: Forecast, rate_mbit: float) -> bool:
    """Whether the busiest node's bytes are what an exchange takes its time for."""
    return abs(_carried_s(found, rate_mbit) - found.exchange_s) <= NEAR * found.exchange_s


def _carried_s(found: Forecast, rate_mbit: float) -> float:
    return found.busiest_bytes * 8e-6 / rate_mbit


def _why_slow(found: Forecast, rate_mbit: float) -> str:
    if _carrying(found, rate_mbit):
        return f", since one node carries {bytes_text(found.busiest_bytes)}"
    if _carried_s(found, rate_mbit) > found.exchange_s:
        return ""
    if found.limit == "nodes":
        return ", since its nodes have much to copy and add up"
    return ", more than its bytes alone take"


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
