"""The findings in a few sentences: which strategy, its cost in bytes and time, its trust."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from analysis.predict.advice import Answer, advice
from analysis.predict.fitted import load
from analysis.report.accuracy.curves import reached, target_text, usual_target
from analysis.report.context import Report
from analysis.report.overview.trust import AGREES, compared, is_measured
from analysis.tables.configurations import Configuration, grouped, named
from analysis.tables.labels import several_sizes
from analysis.tables.load import Runs
from analysis.tables.noise import (
    Measured,
    distinguishable,
    measured,
    not_distinguishable,
    unequal_computing,
    why_no_order,
)
from cluster.observe.units import bytes_text, link_text, percent_text, seconds_text
from cluster.spec.catalogue import WORKLOADS
from cluster.spec.strategies import facts_of

SLOW_MBIT = 100
SAME_BYTES = 1.05
"""Bytes that differ by less than this factor are not told apart."""
BURST = 0.1
"""Of the model: a link with a larger burst looks faster than its rate."""
SAME_ACCURACY = 0.005
"""Accuracies that differ by less are equal in effect."""
SAME_TRAINING = ("model", "dataset", "workers", "epochs", "train_size", "batch_size", "partition")
"""Where these are equal, strategies' accuracies are compared, each at its best learning rate."""
MOST_NAMES = 3
MOST_SPEEDS = 3


def answers(report: Report) -> list[Answer]:
    found = []
    for task, configurations in report.tasks.items():
        where = f"{task}: " if len(report.tasks) > 1 else ""
        about = [_accuracy(configurations), *_bytes(report, configurations)]
        found += [Answer(where + answer.question, answer.text) for answer in about]
    return [*found, *_speed(report), *_advice(report), *_trust(report.runs)]


def _listed(names: Sequence[str], most: int | None = None) -> str:
    """Names that contain commas are separated by semicolons."""
    between = "; " if any("," in name for name in names) else ", "
    if most is not None and len(names) > most:
        return f"{between.join(names[:most])} and {len(names) - most} more"
    return " and ".join([between.join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _equal(names: Sequence[str]) -> str:
    return _listed(names) + (" (equal)" if len(names) > 1 else "")


def _ranked(found: Sequence[Measured], text: Callable[[float], str]) -> str:
    """The best, which comes first, and the runner-up; or those that have no order with the best."""
    best, others = found[0], found[1:]
    near = not_distinguishable(best, others)
    if near:
        names = _listed([_value(number, text) for number in (best, *near)], MOST_NAMES)
        return f"not distinguishable: {names} ({why_no_order([best, *near])})."
    runner_up = f"; next: {_value(others[0], text)}" if others else ""
    return f"{_value(best, text)}{runner_up}."


def _value(number: Measured, text: Callable[[float], str]) -> str:
    if number.seeds == 1:
        return f"{number.label}, {text(number.mean)}"
    over = f"mean of {number.seeds} seeds, {text(number.low)} to {text(number.high)}"
    return f"{number.label}, {text(number.mean)} ({over})"


def _most_accurate(configurations: Sequence[Configuration]) -> list[Measured]:
    """All of them, the most accurate first."""
    return sorted(measured(configurations, "accuracy"), key=lambda got: -got.mean)


def _accuracy(configurations: Sequence[Configuration]) -> Answer:
    found = _most_accurate(configurations)
    if _all_chance_level(configurations):
        return Answer(
            "Accuracy:", f"at chance level; the highest is {_value(found[0], percent_text)}."
        )
    question = "Most accurate:" if len(found) > 1 else "Accuracy:"
    return Answer(question, _ranked(found, percent_text))


def _bytes(report: Report, configurations: Sequence[Configuration]) -> list[Answer]:
    """Fewest bytes to the target accuracy, of those that reached it in all their runs."""
    runs = report.runs
    target = report.target or usual_target(runs, configurations)
    if target is None or _all_chance_level(configurations):
        return []
    costs, uncounted = [], False
    for configuration in configurations:
        got = reached(runs, configuration, target)
        uncounted |= bool(got.seeds) and got.payload_bytes is None
        if got.payload_bytes and got.seeds == got.of:
            costs.append((got.payload_bytes, configuration.label))
    aim = f"{target_text(target)} accuracy"
    if not costs:
        text = "no strategy that sends anything reached it in all of its runs."
        if uncounted:
            text = "unknown: the GPUs' exchange did not cross eth0, where bytes are counted."
        return [Answer(f"Bytes to {aim}:", text)]
    costs.sort()
    (least, _), (most, highest) = costs[0], costs[-1]
    names = _equal([label for sent, label in costs if sent <= SAME_BYTES * least])
    text = f"{names}, {bytes_text(least)} of payload over all nodes"
    if most > SAME_BYTES * least:
        text += f"; the most: {highest}, {bytes_text(most)}, {most / least:.1f} times as many"
    question = f"Fewest bytes to {aim} in every run:" if len(costs) > 1 else f"Bytes to {aim}:"
    return [Answer(question, text + ".")]


def _speed(report: Report) -> list[Answer]:
    """Where several strategies were run with the same model, links and nodes."""
    keys = ("model", "link", "bottleneck", "straggler", "cpus", "workers", "batch_size")
    together = [config for config in report.configurations if config.strategy != "single"]
    found = []
    for (model, link, slow, *_), members in grouped(together, lambda c: c.values(keys)).items():
        if len({config.strategy for config in members}) < 2 or link == "nan" or slow != "nan":
            continue
        same = named(members, with_workers=several_sizes(report.runs.table))
        steps = measured(same, "step_median_s")
        if len(steps) > 1:
            text = _no_order(same) or _ranked(steps, seconds_text) + _burst(report.runs, same)
            found.append(
                Answer(f"Shortest step of {model}, measured on {link_text(link)} links:", text)
            )
    return found[:MOST_SPEEDS]


def _no_order(configurations: Sequence[Configuration]) -> str:
    """A sentence where their computing, which should be equal, is not; empty where it is."""
    medians = [value for config in configurations for value in _known(config, "compute_median_s")]
    reason = unequal_computing(medians)
    return f"{reason}." if reason else ""


def _known(configuration: Configuration, column: str) -> list[float]:
    return [float(value) for value in configuration.runs[column].dropna()]


def _burst(runs: Runs, configurations: Sequence[Configuration]) -> str:
    """A token bucket lets its burst through before it throttles."""
    first = configurations[0]
    bursts = first.rows(runs.links)["burst_bytes"].dropna()
    size = float(first.row["model_bytes"])
    if bursts.empty or bursts.max() <= BURST * size:
        return ""
    burst = float(bursts.max())
    return (
        f" (A link's burst is {bytes_text(burst)}, {percent_text(burst / size, 0)} of this model:"
        " small messages exceed the link's rate.)"
    )


def _advice(report: Report) -> list[Answer]:
    """For the first model above chance level, with the most common number of workers."""
    tasks = sorted(report.tasks.values(), key=_all_chance_level)
    for configurations in tasks:
        several = [config for config in configurations if config.workers > 1]
        if several:
            return _advice_for(report, several)
    return []


def _advice_for(report: Report, several: Sequence[Configuration]) -> list[Answer]:
    workers = Counter(config.workers for config in several).most_common(1)[0][0]
    row = several[0].row
    learned = _learned([config for config in several if config.workers == workers])
    if not learned:
        learned = (
            f"To compare their accuracy: ./measure.sh {training_flags(row)} --workers {workers}"
            f" --link {SLOW_MBIT}mbit --strategy allreduce,pairwise,local-sgd."
        )
    model, size = str(row["model"]), int(row["model_bytes"])
    steps = measured_steps(report, model, workers)
    found = advice(load(), model, size, SLOW_MBIT, workers, learned, steps)
    return [found] if found else []


def _all_chance_level(configurations: Sequence[Configuration]) -> bool:
    return all(config.is_chance_level for config in configurations)


def measured_steps(report: Report, model: str, workers: int) -> list[Measured]:
    """Each strategy's shortest step on links of SLOW_MBIT, all else equal.

    Empty below two, and where their computing is unequal.
    """
    candidates = [
        config
        for config in report.configurations
        if config.strategy != "single"
        and (str(config.row["model"]), config.workers) == (model, workers)
        and pd.isna(config.row["bottleneck"])
        and pd.isna(config.row["straggler"])
        and config.row["link"] == f"{SLOW_MBIT}mbit"
    ]
    keys = ("dataset", "batch_size", "cpus", "engine", "launcher")
    groups = grouped(candidates, lambda config: config.values(keys)).values()
    members = max(groups, key=lambda some: len({config.strategy for config in some}), default=[])
    found: dict[str, Measured] = {}
    for step in measured(named(members, with_workers=False), "step_median_s"):
        found.setdefault(step.strategy, step)
    return list(found.values()) if len(found) > 1 and not _no_order(members) else []


def training_flags(row: pd.Series[Any]) -> str:
    """What a run trained, as flags of ./measure.sh."""
    model, dataset = str(row["model"]), row["dataset"]
    for name, facts in WORKLOADS.items():
        models = facts["model"] if isinstance(facts["model"], tuple) else (facts["model"],)
        if model in models and facts["dataset"] == dataset:
            which = f" --model {model}" if len(models) > 1 else ""
            return f"--workload {name}{which}"
    known = not pd.isna(dataset) and dataset != "none"
    return f"--model {model}" + (f" --dataset {dataset}" if known else "")


def _learned(configurations: Sequence[Configuration]) -> str:
    """Accuracy of strategies that average less against those that average everything."""
    found = []
    for members in grouped(configurations, lambda config: config.values(SAME_TRAINING)).values():
        best: dict[str, Measured] = {}
        for number in _most_accurate(members):
            best.setdefault(number.strategy, number)
        less = [got for name, got in best.items() if not facts_of(name).averages_everything]
        full = [got for name, got in best.items() if facts_of(name).averages_everything]
        if less and full and not _all_chance_level(members):
            each = "; ".join(f"{got.label} {percent_text(got.mean)}" for got in (*less, full[0]))
            furthest = max(less, key=lambda got: abs(full[0].mean - got.mean))
            gap = abs(full[0].mean - furthest.mean)
            found.append((gap, _difference(furthest, full[0]), each))
    if not found:
        return ""
    _, text, each = max(found)
    return f"{text} ({each})."


def _difference(less: Measured, full: Measured) -> str:
    """What averaging less costs or gains, where seeds tell it."""
    gap = abs(full.mean - less.mean)
    one_seed = ", one seed each" if less.seeds == full.seeds == 1 else ""
    if gap < SAME_ACCURACY:
        return f"Measured accuracy is equal{one_seed}"
    points = f"{100 * gap:.1f} points"
    if distinguishable(less, full):
        effect = "costs" if less.mean < full.mean else "gains"
        return f"This {effect} up to {points} of accuracy"
    way = "lower" if less.mean < full.mean else "higher"
    return f"Accuracy is {way} by up to {points}{one_seed or ', but seeds overlap'}"


def _trust(runs: Runs) -> list[Answer]:
    table = runs.completed
    ratios = table["sent_over_predicted"].dropna()
    differences = table["counters_largest_difference"].dropna()
    if ratios.empty or differences.empty:
        return []
    verdicts = Counter(compared(run).verdict for _, run in table.iterrows() if is_measured(run))
    every, agree = verdicts.total(), verdicts.pop(AGREES, 0)
    others = "".join(f"; {count}: {verdict}" for verdict, count in verdicts.items())
    text = (
        f"{agree} of {every} runs agree with theory and among counters{others}. Measured over"
        f" predicted bytes: {ratios.min():.3f} to {ratios.max():.3f}; readings of the counters"
        f" differ by at most {percent_text(float(differences.max()), 3)}."
    )
    return [Answer("Trust:", text)]
