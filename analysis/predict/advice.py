"""Which strategy on which links and why, by the cost model."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from analysis.predict.cost_model import Cluster, Forecast
from analysis.predict.crossovers import fastest, rates_mbit
from analysis.predict.fitted import FAR, Fitted
from analysis.tables.noise import Measured, distinguishable, not_distinguishable
from cluster.observe.units import bytes_text, seconds_text
from cluster.spec.strategies import STRATEGIES

NEAR = 0.2
"""Bytes whose time is that of an exchange, give or take this share, are its reason."""
UNKNOWN_IF_LEARNED = "Whether they learn as much, only runs of both can tell."


def clusters(model: Fitted, model_bytes: int, rate_mbit: float, workers: int = 2) -> list[Cluster]:
    """All strategies that the model knows, with their defaults."""
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
        if facts.exchanges and model.knows(name)
    ]


class Answer(NamedTuple):
    question: str
    text: str

    def __str__(self) -> str:
        return f"{self.question} {self.text}"


def advice(
    model: Fitted,
    name: str,
    model_bytes: int,
    rate_mbit: float,
    workers: int,
    learned: str = "",
    measured: Sequence[Measured] = (),
) -> Answer | None:
    """The fastest strategies for a model called `name`. What is `measured` is not predicted.

    `learned` says how accurate strategies are that do not average everything. None where nothing
    is measured and the model knows no strategy.
    """
    strategies = {step.strategy for step in measured}
    known = {
        cluster.strategy: cluster
        for cluster in clusters(model, model_bytes, rate_mbit, workers)
        if cluster.strategy not in strategies
    }
    found = {strategy: model.forecast(cluster) for strategy, cluster in known.items()}
    whose = f"for {workers} workers and the {bytes_text(model_bytes)} of {name}"
    if measured:
        text = _of_measured(measured, learned, found, whose)
        return Answer(f"Which strategy at {rate_mbit:g} Mbit/s for {name}, measured?", text)
    full, less = _by_averaging(found)
    if not full:
        return None
    best = min(full, key=lambda strategy: found[strategy].exchange_s)
    text = _of_predicted(found, full, best, rate_mbit)
    if less:
        each = " and ".join(
            f"{strategy} {seconds_text(found[strategy].step_s)}" for strategy in less
        )
        text += f" To average less: {each} a step. {learned or UNKNOWN_IF_LEARNED}"
    text += f" Times are predicted, {whose}"
    outside = model.outside(known[best])
    text += f": orders of magnitude, {outside} of what was fitted." if outside else "."
    return Answer(f"Which strategy at {rate_mbit:g} Mbit/s for {name}, and why?", text)


def _by_averaging(strategies: Sequence[str] | dict[str, Forecast]) -> tuple[list[str], list[str]]:
    """Those that average everything at every step, and the others."""
    full = [name for name in strategies if STRATEGIES[name].averages_everything]
    return full, [name for name in strategies if name not in full]


def _of_predicted(
    found: dict[str, Forecast], full: Sequence[str], best: str, rate_mbit: float
) -> str:
    worst = max(full, key=lambda strategy: found[strategy].exchange_s)
    most = bytes_text(found[best].busiest_bytes)
    why = "since" if _is_by_bytes(found[best], rate_mbit) else "in which"
    return (
        f"To average everything at every step: {best},"
        f" {seconds_text(found[best].exchange_s)} an exchange, {why} no node carries more than"
        f" {most} (slowest: {worst}, {seconds_text(found[worst].exchange_s)}"
        f"{_why_slow(found[worst], rate_mbit)})."
    )


def _of_measured(
    measured: Sequence[Measured], learned: str, predicted: dict[str, Forecast], whose: str
) -> str:
    steps = sorted(measured, key=lambda step: step.mean)
    full = [step for step in steps if STRATEGIES[step.strategy].averages_everything]
    less = [step for step in steps if step not in full]
    texts = []
    if full:
        texts.append(f"To average everything at every step: {_shortest(full)}, measured.")
    if less:
        each = "; ".join(map(_step_text, less))
        texts.append(f"To average less: {each}, measured.")
    if learned:
        texts.append(learned)
    texts.append(f"Medians of a step, computing included, {whose}.")
    if predicted:
        each = ", ".join(f"{name} {seconds_text(it.step_s)}" for name, it in predicted.items())
        texts.append(f"Not measured but predicted, without computing: {each}.")
    return " ".join(texts)


def _step_text(step: Measured) -> str:
    return f"{step.label}, {seconds_text(step.mean)}"


def _shortest(steps: Sequence[Measured]) -> str:
    """In ascending order: the first, those that have no order with it, and the slowest."""
    best, *others = steps
    near = not_distinguishable(best, others)
    text = "; ".join(map(_step_text, [best, *near])) + (" (not distinguishable)" if near else "")
    if distinguishable(best, steps[-1]):
        text += f" (slowest: {_step_text(steps[-1])})"
    return text


def _is_by_bytes(found: Forecast, rate_mbit: float) -> bool:
    """Whether an exchange takes as long as the busiest node's bytes do."""
    return abs(_carried_s(found, rate_mbit) - found.exchange_s) <= NEAR * found.exchange_s


def _carried_s(found: Forecast, rate_mbit: float) -> float:
    return found.busiest_bytes * 8e-6 / rate_mbit


def _why_slow(found: Forecast, rate_mbit: float) -> str:
    if _is_by_bytes(found, rate_mbit):
        return f", since one node carries {bytes_text(found.busiest_bytes)}"
    if _carried_s(found, rate_mbit) > found.exchange_s:
        return ""
    if found.limit == "nodes":
        return ", since its nodes have much to copy and add up"
    return ", more than its bytes alone take"


def by_link(model: Fitted, model_bytes: int, workers: int) -> str:
    """At which link rates the fastest strategy changes, within the fit; empty where it does not."""
    slow, quick = model.ranges["rate_mbit"]
    rates = [rate for rate in rates_mbit() if slow / FAR <= rate <= quick * FAR]
    known = {each.strategy: each for each in clusters(model, model_bytes, slow, workers)}
    full, _ = _by_averaging(list(known))

    def step_s(strategy: str, rate: float) -> float:
        return model.forecast(dataclasses.replace(known[strategy], rate_mbit=rate)).step_s

    stretches = fastest(full, rates, step_s)
    if len(stretches) < 2:
        return ""
    names = [
        " and ".join(part.fastest) + (" (equal)" if len(part.fastest) > 1 else "")
        for part in stretches
    ]
    parts = [
        f"{name} up to {part.high:g} Mbit/s"
        for name, part in zip(names[:-1], stretches[:-1], strict=True)
    ]
    return f"{'; '.join(parts)}; then {names[-1]}."
