"""What the runs say, in a few sentences: which strategy, for how many bytes and seconds, and is it true. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.advice import advice
from analysis.configurations import Configuration, mean, named
from analysis.curves import reached, usual_target
from analysis.fitted import load
from analysis.load import Runs
from cluster.units import bytes_text, seconds_text

if TYPE_CHECKING:
    from analysis.sections.report import Report

SLOW_MBIT = 100
MORE = 1.05
"""Bytes that differ by less are not worth a word."""
Pair = tuple[Configuration, float]


def answers(report: Report) -> list[str]:
    said = []
    for task, configurations in report.tasks.items():
        where = f"{task}: " if len(report.tasks) > 1 else ""
        said += [where + text for text in _about(report, configurations) if text]
    said += _speed(report.runs, report.configurations)
    said += _advice(report)
    said += _trust(report.runs)
    return said


def _about(report: Report, configurations: Sequence[Configuration]) -> list[str]:
    runs = report.runs
    best, accuracy = max(
        ((one, mean(runs, one, "accuracy") or 0) for one in configurations), key=lambda p: p[1]
    )
    said = [f"Most accurate: {best.label}, {accuracy:.2%}{_seeds(best)}."]
    target = report.target if report.target is not None else usual_target(runs, configurations)
    if target is None:
        return said
    costs: list[Pair] = []
    for one in configurations:
        got = reached(runs, one, target)
        if got.sent_bytes and got.seeds == got.of:
            costs.append((one, got.sent_bytes))
    if not costs:
        return [*said, f"No strategy that sends anything reached {target:.4g} in all its runs."]
    costs.sort(key=lambda pair: pair[1])
    least, most = costs[0], costs[-1]
    text = f"Fewest bytes to an accuracy of {target:.4g}: {least[0].label}, {bytes_text(least[1])}"
    if most[1] > MORE * least[1]:
        text += f"; the most: {most[0].label}, {bytes_text(most[1])}, {most[1] / least[1]:.1f} times as much"
    return [*said, text + "."]


def _seeds(one: Configuration) -> str:
    return f" (mean of {len(one.numbers)} runs)" if len(one.numbers) > 1 else ""


def _speed(runs: Runs, configurations: Sequence[Configuration]) -> list[str]:
    """Where the same model, links and nodes were tried with several strategies."""
    given: dict[tuple[str, ...], list[Pair]] = {}
    for one in configurations:
        step = mean(runs, one, "step_median_s")
        if step is not None and one.strategy != "single":
            keys = ("model", "link", "bottleneck", "straggler", "cpus", "workers", "batch_size")
            given.setdefault(tuple(str(one.row[key]) for key in keys), []).append((one, step))
    said = []
    for (model, link, slow, *_), pairs in given.items():
        if len({one.strategy for one, _ in pairs}) < 2 or link == "nan" or slow != "nan":
            continue
        names = {one.numbers: one.label for one in named(one for one, _ in pairs)}
        pairs.sort(key=lambda pair: pair[1])
        (least, shortest), (most, longest) = pairs[0], pairs[-1]
        said.append(
            f"Shortest step of {model} on links of {link}: {names[least.numbers]}, {seconds_text(shortest)};"
            f" longest: {names[most.numbers]}, {seconds_text(longest)}."
        )
    return said[:3]


def _advice(report: Report) -> list[str]:
    """For the first model that learns something, with as many workers as most of its runs."""
    for configurations in report.tasks.values():
        several = [one.row for one in configurations if one.row["workers"] > 1]
        if several:
            counts = Counter(int(row["workers"]) for row in several)
            workers, size = counts.most_common(1)[0][0], int(several[0]["model_bytes"])
            return [advice(load(), str(several[0]["model"]), size, SLOW_MBIT, workers)]
    return []


def _trust(runs: Runs) -> list[str]:
    table = runs.completed
    ratios = table["sent_over_predicted"].dropna()
    differences = table["counters_largest_difference"].dropna()
    if ratios.empty or differences.empty:
        return []
    return [
        f"Measured over predicted bytes: {ratios.min():.3f} to {ratios.max():.3f};"
        f" independent counters agree within {differences.max():.3%}."
    ]
