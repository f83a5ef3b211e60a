"""What the runs say, in a few sentences: which strategy, for how many bytes and seconds, and is it true. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.predict.advice import AVERAGE_LESS, Answer, Step, advice
from analysis.predict.fitted import load
from analysis.report.accuracy.curves import reached, usual_target
from analysis.report.overview.verdict import AGREES, compared, is_measured
from analysis.tables.chance_level import is_chance_level
from analysis.tables.configurations import Configuration, named
from analysis.tables.labels import several_sizes
from analysis.tables.load import Runs
from cluster.observe.units import bytes_text, seconds_text
from cluster.spec.catalogue import WORKLOADS

if TYPE_CHECKING:
    from analysis.report.context import Report

SLOW_MBIT = 100
MORE = 1.05
"""Bytes that differ by less are not worth a word."""
BURST = 0.1
"""Of the model: a link that lets more through at once feels faster than it is."""
AS_MUCH = 0.005
"""Accuracies that differ by less are alike."""
ALIKE = ("model", "dataset", "workers", "epochs", "train_size", "batch_size", "partition")
"""Where these are equal, accuracies of strategies can be compared, each at the best learning rate tried with it."""
MOST_NAMES = 3
TIE = 0.0005
"""Accuracies that differ by less are the same in the digits that are shown, or nearly."""


def answers(report: Report) -> list[Answer]:
    said = []
    for task, configurations in report.tasks.items():
        where = f"{task}: " if len(report.tasks) > 1 else ""
        said += [Answer(where + one.ask, one.say) for one in _about(report, configurations)]
    said += _speed(report)
    said += _advice(report)
    said += _trust(report.runs)
    return said


@dataclass(frozen=True)
class Measured:
    """One number of a configuration, and what its seeds say."""

    one: Configuration
    mean: float
    low: float
    high: float


def _measured(runs: Runs, configurations: Sequence[Configuration], column: str) -> list[Measured]:
    found = []
    for one in configurations:
        values = runs.table.loc[list(one.numbers), column].dropna().astype(float)
        if not values.empty:
            numbers = float(values.mean()), float(values.min()), float(values.max())
            found.append(Measured(one, *numbers))
    return found


def _names(found: Sequence[Measured]) -> str:
    return _listed([one.one.label for one in found], MOST_NAMES)


def _listed(names: Sequence[str], most: int | None = None) -> str:
    """Names with commas in them are kept apart by semicolons."""
    between = "; " if any("," in name for name in names) else ", "
    if most is not None and len(names) > most:
        return f"{between.join(names[:most])} and {len(names) - most} more"
    return " and ".join([between.join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _alike(best: Measured, others: Sequence[Measured], ties: Sequence[Measured] = ()) -> str:
    """Those whose seeds overlap with the best's are not told apart from it; `ties` are named already."""
    near = [
        one for one in others if one not in ties and one.low <= best.high and one.high >= best.low
    ]
    seeds = [len(one.one.numbers) for one in (best, *others)]
    if max(seeds) == 1:
        return "" if not others else " One seed each: --repeat 3 would tell chance from difference."
    return f" Its seeds overlap with those of {_names(near)}." if near else ""


def _about(report: Report, configurations: Sequence[Configuration]) -> list[Answer]:
    runs = report.runs
    found = sorted(_measured(runs, configurations, "accuracy"), key=lambda one: -one.mean)
    best = found[0]
    seeds = len(best.one.numbers)
    ties = [one for one in found if one.mean >= best.mean - TIE]
    names = _listed([one.one.label for one in ties]) + (" alike" if len(ties) > 1 else "")
    text = f"{names}, {best.mean:.2%}"
    if is_chance_level(best.one.row, best.mean):
        return [Answer("Accuracy:", f"no better than guessing; the best: {text}.")]
    if seeds > 1:
        text += f" ({'the first: ' if len(ties) > 1 else ''}mean of {seeds} seeds, {best.low:.2%} to {best.high:.2%})"
    said = [
        Answer(
            "Most accurate:" if len(found) > 1 else "Accuracy:",
            f"{text}.{_alike(best, found[1:], ties)}",
        )
    ]
    target = report.target if report.target is not None else usual_target(runs, configurations)
    if target is None:
        return said
    costs, uncounted = [], False
    for one in configurations:
        got = reached(runs, one, target)
        uncounted |= bool(got.seeds) and got.sent_bytes is None
        if got.sent_bytes and got.seeds == got.of:
            costs.append((one, got.sent_bytes))
    ask = (
        f"Fewest bytes to {target:.4g} accuracy, with every seed:"
        if len(costs) > 1
        else f"Bytes to {target:.4g}:"
    )
    if not costs and uncounted:
        return [
            *said,
            Answer(ask, "what GPUs exchanged did not cross eth0, where bytes are counted."),
        ]
    if not costs:
        return [*said, Answer(ask, "no strategy that sends anything got there in all its runs.")]
    costs.sort(key=lambda pair: pair[1])
    least, most = costs[0], costs[-1]
    few = [one.label for one, sent in costs if sent <= MORE * least[1]]
    names = _listed(few) + (" alike" if len(few) > 1 else "")
    text = f"{names}, {bytes_text(least[1])} over all nodes"
    if most[1] > MORE * least[1]:
        text += f"; the most: {most[0].label}, {bytes_text(most[1])}, {most[1] / least[1]:.1f} times as much"
    return [*said, Answer(ask, text + ".")]


def _speed(report: Report) -> list[Answer]:
    """Where the same model, links and nodes were tried with several strategies."""
    given: dict[tuple[str, ...], list[Configuration]] = {}
    for one in report.configurations:
        if one.strategy != "single":
            keys = ("model", "link", "bottleneck", "straggler", "cpus", "workers", "batch_size")
            given.setdefault(tuple(str(one.row[key]) for key in keys), []).append(one)
    said = []
    for (model, link, slow, *_), members in given.items():
        if len({one.strategy for one in members}) < 2 or link == "nan" or slow != "nan":
            continue
        same = named(members, with_workers=several_sizes(report.runs.table))
        found = sorted(_measured(report.runs, same, "step_median_s"), key=lambda one: one.mean)
        if len(found) > 1:
            best, worst = found[0], found[-1]
            said.append(
                Answer(
                    f"Shortest step of {model}, measured on links of {link}:",
                    f"{best.one.label}, {seconds_text(best.mean)}; longest: {worst.one.label},"
                    f" {seconds_text(worst.mean)}.{_alike(best, found[1:])}{_burst(report.runs, best.one)}",
                )
            )
    return said[:3]


def _burst(runs: Runs, one: Configuration) -> str:
    """A token bucket lets so much through before it throttles."""
    bursts = runs.links[runs.links["number"].isin(one.numbers)]["burst_bytes"].dropna()
    size = float(one.row["model_bytes"])
    if bursts.empty or bursts.max() <= BURST * size:
        return ""
    return (
        f" (A link lets {bytes_text(float(bursts.max()))} through at once, {bursts.max() / size:.0%} of this model:"
        " so small a message feels a faster link.)"
    )


def _advice(report: Report) -> list[Answer]:
    """For the first model that learns something, with as many workers as most of its runs."""
    for configurations in sorted(report.tasks.values(), key=lambda some: _guess(report.runs, some)):
        several = [one for one in configurations if one.row["workers"] > 1]
        if several:
            workers = Counter(int(one.row["workers"]) for one in several).most_common(1)[0][0]
            row = several[0].row
            learned = _learned(
                report.runs, [one for one in several if one.row["workers"] == workers]
            )
            if not learned:
                learned = (
                    f"Whether that learns as much: ./measure.sh {_what(row)} --workers {workers}"
                    f" --link {SLOW_MBIT}mbit --strategy allreduce,pairwise,local-sgd."
                )
            said = advice(
                load(),
                str(row["model"]),
                int(row["model_bytes"]),
                SLOW_MBIT,
                workers,
                learned,
                measured_steps(report, str(row["model"]), workers),
            )
            return [said] if said else []
    return []


def _guess(runs: Runs, configurations: Sequence[Configuration]) -> bool:
    found = _measured(runs, configurations, "accuracy")
    return all(is_chance_level(one.one.row, one.mean) for one in found)


def measured_steps(report: Report, model: str, workers: int) -> list[Step]:
    """Of each strategy the shortest, on links of just that rate and all else alike; empty where fewer than two were tried."""
    groups: dict[tuple[str, ...], list[Configuration]] = {}
    for one in report.configurations:
        row = one.row
        here = (str(row["model"]), int(row["workers"])) == (model, workers)
        even = pd.isna(row["bottleneck"]) and pd.isna(row["straggler"])
        if one.strategy != "single" and here and even and row["link"] == f"{SLOW_MBIT}mbit":
            keys = ("dataset", "batch_size", "cpus", "engine", "launcher")
            groups.setdefault(tuple(str(row[key]) for key in keys), []).append(one)
    if not groups:
        return []
    members = max(groups.values(), key=lambda some: len({one.strategy for one in some}))
    found: dict[str, Step] = {}
    same = named(members, with_workers=False)
    for got in sorted(_measured(report.runs, same, "step_median_s"), key=lambda got: got.mean):
        found.setdefault(got.one.strategy, Step(got.one.strategy, got.one.label, got.mean))
    return list(found.values()) if len(found) > 1 else []


def _what(row: pd.Series[Any]) -> str:
    """What a run trained, as it is typed."""
    model, dataset = str(row["model"]), row["dataset"]
    for name, facts in WORKLOADS.items():
        if (facts["model"], facts["dataset"]) == (model, dataset):
            return f"--workload {name}"
    known = not pd.isna(dataset) and dataset != "none"
    return f"--model {model}" + (f" --dataset {dataset}" if known else "")


def _learned(runs: Runs, configurations: Sequence[Configuration]) -> str:
    """Those that average less beside those that average everything, all else equal; empty without both."""
    groups: dict[tuple[str, ...], list[Configuration]] = {}
    for one in configurations:
        groups.setdefault(tuple(str(one.row[key]) for key in ALIKE), []).append(one)
    compared_groups = []
    for members in groups.values():
        found = sorted(_measured(runs, members, "accuracy"), key=lambda one: -one.mean)
        best: dict[str, Measured] = {}
        for got in found:
            best.setdefault(got.one.strategy, got)
        less = [got for name, got in best.items() if name in AVERAGE_LESS]
        full = [got for name, got in best.items() if name not in AVERAGE_LESS]
        if less and full and not is_chance_level(found[0].one.row, found[0].mean):
            each = "; ".join(f"{got.one.label} {got.mean:.2%}" for got in (*less, full[0]))
            worst = min(less, key=lambda got: got.mean)
            compared_groups.append((full[0].mean - worst.mean, _lost(worst, full[0]), each))
    if not compared_groups:
        return ""
    _, text, each = max(compared_groups)
    return f"{text} ({each})."


def _lost(less: Measured, full: Measured) -> str:
    """A cost is what seeds agree on: the best of one is below the worst of the other."""
    lost = full.mean - less.mean
    one_seed = len(less.one.numbers) == len(full.one.numbers) == 1
    if lost < AS_MUCH:
        return f"Here they learned as much{', one seed each' if one_seed else ''}"
    points = f"{100 * lost:.1f} points"
    if one_seed:
        return f"Here accuracy differs by up to {points}, one seed each"
    if less.high < full.low:
        return f"Here that cost up to {points} of accuracy"
    return f"Here accuracy differs by up to {points}, but seeds overlap"


def _trust(runs: Runs) -> list[Answer]:
    table = runs.completed
    ratios = table["sent_over_predicted"].dropna()
    differences = table["counters_largest_difference"].dropna()
    if ratios.empty or differences.empty:
        return []
    verdicts = Counter(compared(run)["verdict"] for _, run in table.iterrows() if is_measured(run))
    every, agree = verdicts.total(), verdicts.pop(AGREES, 0)
    others = "".join(f"; {count}: {verdict}" for verdict, count in verdicts.items())
    return [
        Answer(
            "Can it be trusted?",
            f"{agree} of {every} runs agree with theory and among counters{others}. Measured over predicted bytes:"
            f" {ratios.min():.3f} to {ratios.max():.3f}; independent counters differ by {differences.max():.3%} at most.",
        )
    ]
