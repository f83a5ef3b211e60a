"""Each lab's conclusion in words, from our runs of one session: its questions, answered in order.

Two numbers have an order where analysis/tables/noise.py says so. Where computing that should be
equal is not, nothing is concluded from times.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pandas as pd

from analysis.report.references import lab_answers
from analysis.report.references.compared import (
    against,
    change,
    mean_text,
    number,
    same_or_not,
    unequal_times,
)
from analysis.tables.configurations import is_chance_level
from analysis.tables.steps import FIRST_STEPS
from cluster.observe.units import bytes_text, list_names, percent_text, seconds_text
from cluster.spec.catalogue import DATASETS

STEP = "step_median_s"
Answers = Callable[[pd.DataFrame], Iterator[str]]


def conclusions(preset: str, runs: pd.DataFrame) -> list[str]:
    """One sentence or two for each question that these runs answer."""
    return list(CONCLUSIONS[preset](runs)) if preset in CONCLUSIONS else []


METHODS = {"gather-scatter": "gather and scatter", "allreduce": "all-reduce", "ddp": "DDP"}
"""Of the sheets with parts, in their order: strategy -> the sheet's name."""


def _step_changes(runs: pd.DataFrame, question: str) -> Iterator[str]:
    """Time of a step on 4 nodes, from each method to the next."""
    steps = [number(runs, STEP, name, strategy=key, workers=4) for key, name in METHODS.items()]
    for before, after in itertools.pairwise(steps):
        if before and after:
            yield f"{question}: {change(before, after, seconds_text)}."


def _vgg_parts(runs: pd.DataFrame) -> Iterator[str]:
    one = number(runs, STEP, "one node", strategy="single")
    if reason := unequal_times(runs):
        yield f"Comparison, scalability: {reason}."
    else:
        yield from _step_changes(runs, "Comparison")
        ddp = number(runs, STEP, "DDP", strategy="ddp", workers=4)
        if one and ddp:
            share = percent_text(ddp.mean / one.mean, 1)
            yield (
                f"Comparison: DDP on 4 nodes takes {share} of one node's time per batch"
                f" ({mean_text(ddp, seconds_text)} and {mean_text(one, seconds_text)}); without"
                " communication it would be 25 %."
            )
        yield from _scalability(runs)
    yield from _learned(runs)


def _scalability(runs: pd.DataFrame) -> Iterator[str]:
    """By samples per second, since incomplete batches are dropped."""
    found = [number(runs, STEP, "", strategy="ddp", workers=nodes) for nodes in (1, 2, 3, 4)]
    if found[0] is None or not any(found[1:]):
        return
    alone = found[0].mean
    gains = {nodes: alone / got.mean for nodes, got in enumerate(found, 1) if got and nodes > 1}
    texts = [
        f"{gain:.2f} times on {nodes} nodes ({percent_text(gain / nodes, 0)} of perfect)"
        for nodes, gain in gains.items()
    ]
    shares = [gain / nodes for nodes, gain in gains.items()]
    diminish = shares == sorted(shares, reverse=True) and len(shares) > 1
    trend = ": each node more gains less" if diminish else ""
    yield f"Scalability of DDP: as fast as one node {', '.join(texts)}{trend}."


def _learned(runs: pd.DataFrame) -> Iterator[str]:
    """Accuracy against the chance level, and whether the methods differ in it."""
    methods = runs[(runs["workers"] == 4) | (runs["strategy"] == "single")]
    known = {
        str(strategy): found
        for strategy in methods["strategy"].unique()
        if (found := number(methods, "accuracy", str(strategy), strategy=str(strategy)))
    }
    if len(known) < 2:
        return
    row = methods.iloc[0]
    lowest = min(known.values(), key=lambda found: found.mean)
    highest = max(known.values(), key=lambda found: found.mean)
    chance = 1 / DATASETS[str(row["dataset"])].classes
    above = "not all above" if is_chance_level(row, lowest.mean) else "above"
    yield (
        f"Accuracy and loss: {same_or_not(lowest, highest, percent_text)}; {above} the chance level"
        f" of {percent_text(chance, 0)}."
    )


def _collectives(runs: pd.DataFrame) -> Iterator[str]:
    two = runs[(runs["workers"] == 2) & runs["bottleneck"].isna() & runs["straggler"].isna()]
    mean = {"reduce": "mean", "average": "gradients"}
    if reason := unequal_times(two):
        yield f"Requirement 1: {reason}."
    else:
        waits = "exposed_communication_median_s"
        ring = number(two, waits, "all-reduce", strategy="allreduce", **mean)
        gather = number(two, waits, "all-gather", strategy="allgather", **mean)
        if ring and gather:
            text = change(gather, ring, seconds_text)
            yield f"Requirement 1, communication time of a step: {text}."
    usual = number(two, "accuracy", "mean of gradients", strategy="allreduce", **mean)
    others = (
        number(two, "accuracy", "all-gather", strategy="allgather", **mean),
        number(two, "accuracy", "sum of gradients", strategy="allreduce", reduce="sum"),
        number(two, "accuracy", "mean of parameters", strategy="allreduce", average="parameters"),
    )
    if usual and any(others):
        text = against(usual, [other for other in others if other], percent_text)
        yield f"Requirement 1, accuracy: {text}."
    yield from _bottlenecks(runs[runs["workers"] == 4])


def _bottlenecks(runs: pd.DataFrame) -> Iterator[str]:
    """How many times as long a step is with a slow node."""
    if reason := unequal_times(runs[runs["straggler"].isna()]):
        yield f"Requirement 2: {reason}."
        return
    for kind, column in (("slow link", "bottleneck"), ("slow CPU", "straggler")):
        ratios = []
        for strategy in ("allreduce", "allgather"):
            equal = {"strategy": strategy, "bottleneck": "none", "straggler": "none"}
            before = number(runs, STEP, strategy, **equal)
            after = number(runs, STEP, strategy, **{**equal, column: "1:*"})
            if before and after:
                ratios.append(f"{after.mean / before.mean:.1f} times as long with {strategy}")
        if ratios:
            text = list_names(ratios)
            yield f"Requirement 2: where one node has a {kind}, every node's step takes {text}."


def _pairwise_averaging(runs: pd.DataFrame) -> Iterator[str]:
    five = runs[runs["workers"] == 5]
    full = number(five, "accuracy", "all-reduce", strategy="allreduce", epochs=12)
    sent = number(five, "train_payload_bytes", "all-reduce", strategy="allreduce", epochs=12)
    fewer = []
    for passes in (4, 3, 2, 1):
        wanted: dict[str, int | str] = {"strategy": "pairwise", "passes": passes, "epochs": 12}
        cost = number(five, "train_payload_bytes", "", **wanted)
        share = percent_text(cost.mean / sent.mean, 0) if cost and sent else "?"
        label = f"{passes} pass{'es' if passes > 1 else ''} ({share} of its bytes)"
        fewer.append(number(five, "accuracy", label, **wanted))
    if full and any(fewer):
        text = against(full, [found for found in fewer if found], percent_text)
        yield f"At equal iterations (5 workers, 12), accuracy: {text}."
    more = number(five, "accuracy", "", strategy="pairwise", passes=1, epochs=18)
    cost = number(five, "train_payload_bytes", "", strategy="pairwise", passes=1, epochs=18)
    if full and sent and more and cost:
        yield (
            f"Figure 3: 1 pass with 18 iterations reaches {mean_text(more, percent_text)} for"
            f" {bytes_text(cost.mean)}, all-reduce with 12 {mean_text(full, percent_text)} for"
            f" {bytes_text(sent.mean)}: {cost.mean / sent.mean:.2f} times the bytes."
        )


def _language_model(runs: pd.DataFrame) -> Iterator[str]:
    if reason := unequal_times(runs):
        yield f"Time per iteration: {reason}."
    else:
        yield from _step_changes(runs, "Time per iteration")
    yield from _equal_losses(runs)
    scores = [
        f"{percent_text(found.mean, 1)} after epoch {epoch}"
        for epoch in (1, 2, 3)
        if (found := number(runs, f"epoch_{epoch}_accuracy", "", strategy="single"))
    ]
    if scores:
        yield f"Task 1, one worker: {', '.join(scores)}; the chance level is 50 %."


def _equal_losses(runs: pd.DataFrame) -> Iterator[str]:
    """Whether 2a and 2b have the same losses: of the first steps and of the last epoch."""
    losses = ["last_train_loss", *(f"loss_of_step_{step}" for step in range(1, FIRST_STEPS + 1))]
    four = runs[runs["workers"] == 4]
    star, ring = (four[four["strategy"] == name] for name in ("gather-scatter", "allreduce"))
    if star.empty or ring.empty:
        return
    apart = float((star[losses].mean() - ring[losses].mean()).abs().max())
    text = "less than 0.0001" if apart < 1e-4 else f"up to {apart:.4f}"
    yield (
        "Tasks 2a and 2b: training losses of gather and scatter and of all-reduce, first steps and"
        f" last epoch, differ by {text}."
    )


CONCLUSIONS: dict[str, Answers] = {
    "vgg-parts": _vgg_parts,
    "lab-batch-size": lab_answers.answers,
    "collectives": _collectives,
    "pairwise-averaging": _pairwise_averaging,
    "language-model": _language_model,
}
