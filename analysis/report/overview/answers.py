"""The answers of the first screen, all of them measured in these runs.

One line each: the winner with its mean and spread over seeds, the runner-up, and what has no order
with the winner (analysis/tables/noise.py). Times of a contended host are grey and have no winner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pandas as pd

from analysis.report.accuracy.curves import reached, target_text, usual_target
from analysis.report.context import Report, computing_differs
from analysis.report.overview.trust import AGREES, compared, is_measured
from analysis.report.page import Answer
from analysis.report.time.bottleneck_cases import find_studies
from analysis.report.time.bottleneck_findings import extremes
from analysis.report.time.scaling import find_series
from analysis.tables.configurations import Configuration, grouped, named
from analysis.tables.labels import several_sizes
from analysis.tables.load import Runs
from analysis.tables.noise import (
    Measured,
    mean_text,
    measured,
    not_distinguishable,
    why_no_order,
)
from cluster.observe.units import bytes_text, link_text, percent_text, seconds_text

SAME_BYTES = 1.05
"""Bytes that differ by less than this factor are not told apart."""
BURST = 0.1
"""Of the model: a link with a larger burst looks faster than its rate."""
MOST_NAMES = 2
MOST_SETTINGS = 3
SETTING = ("model", "workers", "link", "batch_size", "bottleneck", "straggler", "cpus", "engine")
"""Steps are compared where these are equal."""


def answers(report: Report) -> list[Answer]:
    found = [*_speed(report), *_slow_nodes(report), *_speed_up(report)]
    for task, configurations in report.tasks.items():
        where = f", {task}" if len(report.tasks) > 1 else ""
        about = [_accuracy(configurations), *_bytes(report, configurations)]
        found += [Answer(answer.question + where, answer.text) for answer in about]
    return [*found, *_trust(report)]


def _listed(names: Sequence[str], most: int | None = None) -> str:
    """Names that contain commas are separated by semicolons."""
    between = "; " if any("," in name for name in names) else ", "
    if most is not None and len(names) > most:
        return f"{between.join(names[:most])} and {len(names) - most} more"
    return " and ".join([between.join(names[:-1]), names[-1]] if len(names) > 1 else names)


def ranked(found: Sequence[Measured], text: Callable[[float], str]) -> str:
    """The best, which comes first, and the runner-up; or those that have no order with the best."""
    best, others = found[0], found[1:]
    near = not_distinguishable(best, others)
    apart = [other for other in others if other not in near]
    parts = [_value(best, text)]
    if near:
        names = _listed([_value(number, text) for number in (best, *near)], MOST_NAMES)
        parts = [f"no winner: {names} are not distinguishable ({why_no_order([best, *near])})"]
    if apart:
        parts.append(f"next: {_value(apart[0], text)}{_times(best, apart[0])}")
    if len(apart) > 1:
        parts.append(f"last: {_value(apart[-1], text)}{_times(best, apart[-1])}")
    return "; ".join(parts) + _seeds(found)


def _value(number: Measured, text: Callable[[float], str]) -> str:
    value = text(number.mean) if number.sd is None else mean_text(text, number.mean, number.sd)
    return f"{number.label}, {value}"


def _times(best: Measured, other: Measured) -> str:
    """Of times and bytes, which are better when less."""
    ratio = other.mean / best.mean if best.is_time and best.mean else 0
    return f" ({ratio:.1f} times)" if ratio > 1 else ""


def _seeds(found: Sequence[Measured]) -> str:
    counts = sorted({number.seeds for number in found})
    if counts == [1]:
        return ". One seed each." if len(found) > 1 else ". One seed."
    return f". Mean ± sd of {' to '.join(map(str, counts))} seeds."


def _speed(report: Report) -> list[Answer]:
    """Shortest step and share of communication, for the settings with the most configurations."""
    together = [c for c in report.configurations if c.strategy != "single"]
    settings = [
        members
        for members in grouped(together, lambda c: c.values(SETTING)).values()
        if len(measured(members, "step_median_s")) > 1
        and pd.isna(members[0].row["bottleneck"])
        and pd.isna(members[0].row["straggler"])
    ]
    settings.sort(key=lambda some: (-len(some), -some[0].workers))
    found = []
    for members in _told(report, settings):
        same = named(members, with_workers=several_sizes(pd.concat([m.runs for m in members])))
        where = _where(members[0], settings)
        steps = measured(same, "step_median_s")
        reason = report.contended.get(members[0].numbers[0], "")
        text = _capital(reason) if reason else ranked(steps, seconds_text)
        question = "Fastest step" + (f", {where}" if where else "")
        found.append(Answer(question, text + _burst(report.runs, same), bool(reason)))
    if settings:
        found += _shares(report, settings[0])
    return found


def _told(
    report: Report, settings: Sequence[Sequence[Configuration]]
) -> list[Sequence[Configuration]]:
    """Of the contended settings only the first: the others have no order for the same reason."""
    quiet = [members for members in settings if not report.is_contended(members[0])]
    return quiet[:MOST_SETTINGS] or list(settings[:1])


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _where(configuration: Configuration, settings: Sequence[Sequence[Configuration]]) -> str:
    """What tells this setting from the others."""
    words: dict[str, Callable[[str], str]] = {
        "model": str,
        "workers": lambda n: f"{n} worker{'' if n == '1' else 's'}",
        "link": lambda link: "unlimited links" if link == "nan" else f"{link_text(link)} links",
        "batch_size": lambda size: f"batches of {size}",
        "engine": str,
    }
    differ = [name for name in words if len({some[0].values([name]) for some in settings}) > 1]
    return ", ".join(words[name](configuration.values([name])[0]) for name in differ)


def _shares(report: Report, members: Sequence[Configuration]) -> list[Answer]:
    """Exposed communication over the step, least and most."""
    found = []
    for member in named(members, with_workers=False):
        exposed, step = (
            member.mean(name) for name in ("exposed_communication_median_s", "step_median_s")
        )
        if exposed is not None and step:
            found.append((exposed / step, member.label))
    if not found:
        return []
    ends = [f"{percent_text(share, 0)} ({label})" for share, label in (min(found), max(found))]
    text = f"of a step: {' to '.join(dict.fromkeys(ends))}."
    return [Answer("Share of communication", text, report.is_contended(members[0]))]


def _slow_nodes(report: Report) -> list[Answer]:
    """Grey where no case has an order."""
    found = []
    for study in find_studies(report.runs):
        if text := extremes(study):
            clauses = text.split("; ")
            grey = all("no order" in clause for clause in clauses)
            found.append(Answer("With slow nodes", f"{text} ({study.title})", grey))
    return found


def _speed_up(report: Report) -> list[Answer]:
    """Of the series with the most workers, its best strategy."""
    found = [
        series
        for series in find_series(report.runs, report.configurations)
        if sum(run.median("compute_median_s") is not None for run in series.runs) > 1
    ]
    if not found:  # or their computing is not known, as with ddp
        return []
    best = max(found, key=lambda series: (series.sizes[-1].workers, series.sizes[-1].speed_up))
    first, last = best.sizes[0], best.sizes[-1]
    base = f"{first.workers} worker{'' if first.workers == 1 else 's'}"
    text = (
        f"{last.workers} workers train on {last.speed_up:.2f} times the samples per second of"
        f" {base} ({best.label}), efficiency {percent_text(last.efficiency, 0)}."
    )
    if reason := computing_differs(best.runs):
        text += f" {_capital(reason)}"
    return [Answer("Speed-up", text, bool(reason))]


def _accuracy(configurations: Sequence[Configuration]) -> Answer:
    found = sorted(measured(configurations, "accuracy"), key=lambda got: -got.mean)
    if all(config.is_chance_level for config in configurations):
        best = _value(found[0], percent_text)
        return Answer("Accuracy", f"at chance level; the highest is {best}.")
    question = "Most accurate" if len(found) > 1 else "Accuracy"
    return Answer(question, ranked(found, percent_text))


def _bytes(report: Report, configurations: Sequence[Configuration]) -> list[Answer]:
    """Fewest bytes to the target accuracy, of those that reached it in all their runs."""
    target = report.target or usual_target(report.runs, configurations)
    if target is None or all(config.is_chance_level for config in configurations):
        return []
    costs, uncounted = [], False
    for configuration in configurations:
        got = reached(report.runs, configuration, target)
        uncounted |= bool(got.seeds) and got.payload_bytes is None
        if got.payload_bytes and got.seeds == got.of:
            costs.append((got.payload_bytes, configuration.label))
    question = (
        f"Fewest bytes to {target_text(target)}"
        if len(costs) > 1
        else (f"Bytes to {target_text(target)}")
    )
    if not costs:
        text = "no strategy that sends anything reached it in all of its runs."
        if uncounted:
            text = "unknown: the GPUs' exchange did not cross eth0, where bytes are counted."
        return [Answer(question, text)]
    costs.sort()
    (least, _), (most, highest) = costs[0], costs[-1]
    names = [label for sent, label in costs if sent <= SAME_BYTES * least]
    text = f"{_listed(names, MOST_NAMES)}{' (equal)' if len(names) > 1 else ''}, "
    text += f"{bytes_text(least)} of payload over all nodes"
    rest = [(sent, label) for sent, label in costs if sent > SAME_BYTES * least]
    if len(rest) > 1:
        text += f"; next: {rest[0][1]}, {bytes_text(rest[0][0])} ({rest[0][0] / least:.1f} times)"
    if rest:
        text += f"; most: {highest}, {bytes_text(most)} ({most / least:.1f} times)"
    return [Answer(question, text + ".")]


def _burst(runs: Runs, configurations: Sequence[Configuration]) -> str:
    """A token bucket lets its burst through before it throttles."""
    first = configurations[0]
    bursts = first.rows(runs.links)["burst_bytes"].dropna()
    size = float(first.row["model_bytes"])
    if bursts.empty or bursts.max() <= BURST * size:
        return ""
    burst = float(bursts.max())
    return (
        f" A link's burst is {bytes_text(burst)}, {percent_text(burst / size, 0)} of this model:"
        " small messages exceed the link's rate."
    )


def _trust(report: Report) -> list[Answer]:
    table = report.runs.completed
    ratios = table["sent_over_predicted"].dropna()
    differences = table["counters_largest_difference"].dropna()
    if ratios.empty or differences.empty:
        return []
    verdicts = Counter(compared(run).verdict for _, run in table.iterrows() if is_measured(run))
    every, agree = verdicts.total(), verdicts.pop(AGREES, 0)
    others = "".join(f"; {count}: {verdict}" for verdict, count in verdicts.items())
    span = " to ".join(dict.fromkeys(f"{end:.3f}" for end in (ratios.min(), ratios.max())))
    text = (
        f"bytes: {agree} of {every} runs agree with theory and among counters{others}; measured"
        f" over predicted {span}. Times: {_times_trusted(report)}."
    )
    return [Answer("Certain?", text)]


def _times_trusted(report: Report) -> str:
    if report.contended:
        runs = len(report.contended)
        return f"no conclusion from {runs} of {len(report.runs.completed)} runs, shown in grey"
    if len(report.configurations) < 2:
        return "of one configuration, with nothing to compare"
    return "no sign of contention: equal computing differs by at most 15 % of a step"
