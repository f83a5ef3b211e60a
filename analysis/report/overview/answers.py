"""The findings in a few sentences: which strategy, its cost in bytes and time, its trust."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.predict.advice import Answer, Step, advice
from analysis.predict.fitted import load
from analysis.report.accuracy.curves import reached, target_text, usual_target
from analysis.report.context import Report
from analysis.report.overview.trust import AGREES, compared, is_measured
from analysis.tables.configurations import Configuration, grouped, named
from analysis.tables.labels import several_sizes
from analysis.tables.load import Runs
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
TIE = 0.0005
"""Accuracies that differ by less are the same in the digits shown, or nearly."""


def answers(report: Report) -> list[Answer]:
    found = []
    for task, configurations in report.tasks.items():
        where = f"{task}: " if len(report.tasks) > 1 else ""
        about = [_accuracy(configurations), *_bytes(report, configurations)]
        found += [Answer(where + answer.question, answer.text) for answer in about]
    return [*found, *_speed(report), *_advice(report), *_trust(report.runs)]


@dataclass(frozen=True)
class Measured:
    """One number of a configuration: mean and range over its seeds."""

    configuration: Configuration
    mean: float
    low: float
    high: float

    @property
    def label(self) -> str:
        return self.configuration.label

    @property
    def seeds(self) -> int:
        return len(self.configuration.numbers)


def _measured(configurations: Sequence[Configuration], column: str) -> list[Measured]:
    """In ascending order."""
    found = []
    for configuration in configurations:
        values = configuration.runs[column].dropna().astype(float)
        if not values.empty:
            numbers = float(values.mean()), float(values.min()), float(values.max())
            found.append(Measured(configuration, *numbers))
    return sorted(found, key=lambda measured: measured.mean)


def _listed(names: Sequence[str], most: int | None = None) -> str:
    """Names that contain commas are separated by semicolons."""
    between = "; " if any("," in name for name in names) else ", "
    if most is not None and len(names) > most:
        return f"{between.join(names[:most])} and {len(names) - most} more"
    return " and ".join([between.join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _equal(names: Sequence[str]) -> str:
    return _listed(names) + (" (equal)" if len(names) > 1 else "")


def _overlap(best: Measured, others: Sequence[Measured], ties: Sequence[Measured] = ()) -> str:
    """Names those whose range over seeds overlaps with the best's; `ties` are named already."""
    if not others:
        return ""
    if max(found.seeds for found in (best, *others)) == 1:
        return " One seed each: use --repeat 3 to separate differences from chance."
    near = [
        other.label
        for other in others
        if other not in ties and other.low <= best.high and other.high >= best.low
    ]
    return f" Its range over seeds overlaps with {_listed(near, MOST_NAMES)}." if near else ""


def _most_accurate(configurations: Sequence[Configuration]) -> list[Measured]:
    """All of them, the most accurate first."""
    return sorted(_measured(configurations, "accuracy"), key=lambda got: -got.mean)


def _accuracy(configurations: Sequence[Configuration]) -> Answer:
    found = _most_accurate(configurations)
    best = found[0]
    ties = [got for got in found if got.mean >= best.mean - TIE]
    text = f"{_equal([tie.label for tie in ties])}, {percent_text(best.mean)}"
    if best.configuration.is_chance_level:
        return Answer("Accuracy:", f"at chance level; the best is {text}.")
    if best.seeds > 1:
        which = "the first: " if len(ties) > 1 else ""
        low, high = percent_text(best.low), percent_text(best.high)
        text += f" ({which}mean of {best.seeds} seeds, {low} to {high})"
    question = "Most accurate:" if len(found) > 1 else "Accuracy:"
    return Answer(question, f"{text}.{_overlap(best, found[1:], ties)}")


def _bytes(report: Report, configurations: Sequence[Configuration]) -> list[Answer]:
    """Fewest bytes to the target accuracy, of those that reached it in all their runs."""
    runs = report.runs
    target = report.target or usual_target(runs, configurations)
    if target is None or _all_chance_level(configurations):
        return []
    costs, uncounted = [], False
    for configuration in configurations:
        got = reached(runs, configuration, target)
        uncounted |= bool(got.seeds) and got.sent_bytes is None
        if got.sent_bytes and got.seeds == got.of:
            costs.append((got.sent_bytes, configuration.label))
    aim = f"{target_text(target)} accuracy"
    if not costs:
        text = "no strategy that sends anything reached it in all of its runs."
        if uncounted:
            text = "unknown: the GPUs' exchange did not cross eth0, where bytes are counted."
        return [Answer(f"Bytes to {aim}:", text)]
    costs.sort()
    (least, _), (most, highest) = costs[0], costs[-1]
    names = _equal([label for sent, label in costs if sent <= SAME_BYTES * least])
    text = f"{names}, {bytes_text(least)} over all nodes"
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
        steps = _measured(same, "step_median_s")
        if len(steps) > 1:
            best, worst = steps[0], steps[-1]
            text = (
                f"{best.label}, {seconds_text(best.mean)}; longest: {worst.label},"
                f" {seconds_text(worst.mean)}.{_overlap(best, steps[1:])}"
                f"{_burst(report.runs, best.configuration)}"
            )
            found.append(
                Answer(f"Shortest step of {model}, measured on {link_text(link)} links:", text)
            )
    return found[:MOST_SPEEDS]


def _burst(runs: Runs, configuration: Configuration) -> str:
    """A token bucket lets its burst through before it throttles."""
    bursts = configuration.rows(runs.links)["burst_bytes"].dropna()
    size = float(configuration.row["model_bytes"])
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


def measured_steps(report: Report, model: str, workers: int) -> list[Step]:
    """Each strategy's shortest step on links of SLOW_MBIT, all else equal; empty below two."""
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
    found: dict[str, Step] = {}
    for got in _measured(named(members, with_workers=False), "step_median_s"):
        strategy = got.configuration.strategy
        found.setdefault(strategy, Step(strategy, got.label, got.mean))
    return list(found.values()) if len(found) > 1 else []


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
    losses = []
    for members in grouped(configurations, lambda config: config.values(SAME_TRAINING)).values():
        found = _most_accurate(members)
        best: dict[str, Measured] = {}
        for got in found:
            best.setdefault(got.configuration.strategy, got)
        less = [got for name, got in best.items() if not facts_of(name).averages_everything]
        full = [got for name, got in best.items() if facts_of(name).averages_everything]
        if less and full and not found[0].configuration.is_chance_level:
            each = "; ".join(f"{got.label} {percent_text(got.mean)}" for got in (*less, full[0]))
            worst = min(less, key=lambda got: got.mean)
            losses.append((full[0].mean - worst.mean, _lost(worst, full[0]), each))
    if not losses:
        return ""
    _, text, each = max(losses)
    return f"{text} ({each})."


def _lost(less: Measured, full: Measured) -> str:
    """A loss of accuracy counts where the ranges over seeds do not overlap."""
    lost = full.mean - less.mean
    one_seed = ", one seed each" if less.seeds == full.seeds == 1 else ""
    if lost < SAME_ACCURACY:
        return f"Measured accuracy is equal{one_seed}"
    points = f"{100 * lost:.1f} points"
    if not one_seed and less.high < full.low:
        return f"This costs up to {points} of accuracy"
    return f"Accuracy differs by up to {points}{one_seed or ', but seeds overlap'}"


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
        f" predicted bytes: {ratios.min():.3f} to {ratios.max():.3f}; independent counters differ"
        f" by at most {percent_text(float(differences.max()), 3)}."
    )
    return [Answer("Trust:", text)]
