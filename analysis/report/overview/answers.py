"""The answers of the first screen, all of them measured in these runs.

One line each: the winner with its mean and spread over seeds, the runner-up, and what has no order
with the winner (analysis/tables/noise.py). Times of a contended host are grey and have no winner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd

from analysis.report.accuracy.curves import (
    final_averaging_bytes,
    reached,
    target_text,
)
from analysis.report.context import Report
from analysis.report.overview.certainty import certainty
from analysis.report.overview.ranking import MOST_NAMES, listed, ranked, value_text
from analysis.report.page import Answer
from analysis.report.time.bottleneck_cases import Study, find_studies
from analysis.report.time.bottleneck_findings import extremes_by_case
from analysis.report.time.scaling import find_series, why_contended
from analysis.tables.configurations import SAME, Configuration, grouped, named
from analysis.tables.contention import by_verdict, without_verdict
from analysis.tables.labels import differing, labels, several_sizes
from analysis.tables.load import Runs
from analysis.tables.noise import (
    mean_text,
    measured,
    not_distinguishable,
    scores,
)
from analysis.tables.score import ACCURACY, score_of
from cluster.observe.units import bytes_text, link_text, percent_text, seconds_text
from cluster.spec.exchange.strategies import STRATEGIES

SAME_BYTES = 1.05
"""Bytes that differ by less than this factor are not told apart."""
BURST = 0.5
"""Of the model: a link with a larger burst looks faster than its rate."""
MOST_SETTINGS = 3
SETTING = ("model", "workers", "link", "batch_size", "bottleneck", "straggler", "cpus", "engine")
"""Steps are compared where these are equal."""
NOT_IN_A_STEP = (
    *("epochs", "train_size", "test_size", "partition", "shuffle", "seed"),
    *("lr", "lr_rule", "warmup_epochs", "weight_decay"),
)
"""Options that change what is learned, not how long a step takes."""


def answers(report: Report) -> list[Answer]:
    found = [*_speed(report), *_slow_nodes(report), *_speed_up(report)]
    for task, configurations in report.tasks.items():
        where = f", {task}" if len(report.tasks) > 1 else ""
        about = [_score(configurations), *_bytes(report, configurations)]
        short = (_with_short_names(answer, configurations) for answer in about)
        found += [replace(answer, question=answer.question + where) for answer in short]
    return [*(answer for answer in found if not answer.grey), *_in_grey(found), *certainty(report)]


def _with_short_names(answer: Answer, configurations: Sequence[Configuration]) -> Answer:
    """Those that it names are called by what tells them from each other, not from all runs."""
    by_label = {config.label: config for config in configurations}
    longest_first = sorted(by_label, key=len, reverse=True)
    name = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, longest_first))})(?![\w-])")
    told = list(dict.fromkeys(name.findall(f"{answer.lead}\n{answer.text}")))
    if len(told) < 2:
        return answer
    members = [by_label[label] for label in told]
    short = named(members, with_workers=len({config.workers for config in members}) > 1)
    names = {label: config.label for label, config in zip(told, short, strict=True)}
    lead, text = (
        name.sub(lambda found: names[found[0]], part) for part in (answer.lead, answer.text)
    )
    return replace(answer, lead=lead, text=text)


def _in_grey(answers: Sequence[Answer]) -> list[Answer]:
    """After those that hold; questions without an order are one line, since the reason is one."""
    grey = [answer for answer in answers if answer.grey]
    none = [answer for answer in grey if answer.text.startswith("No order")]
    rest = [answer for answer in grey if answer not in none]
    if len(none) < 2:
        return [*none, *rest]
    questions = dict.fromkeys(answer.question[:1].lower() + answer.question[1:] for answer in none)
    question = "; ".join(questions)
    return [replace(none[0], question=question[:1].upper() + question[1:]), *rest]


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
        where = _where(members[0], settings, several_sizes(report.runs.table))
        question = "Fastest step" + (f", {where}" if where else "")
        held = _pooled([config for config in members if not report.is_contended(config)])
        burst = _burst(report.runs, members)
        if len(held) < 2:
            found.append(Answer(question, _capital(report.why_contended(members)) + burst, True))
            continue
        lead, rest = ranked(measured(held, "step_median_s"), seconds_text, "run")
        kept = {number for config in held for number in config.numbers}
        lost = [config for config in members if not kept.issuperset(config.numbers)]
        if lost:  # a winner of the others is no winner of all
            lead = f"of the {len(held)} that can be compared: {lead}"
        text = rest + _reached_by(held) + _left_out(lost) + burst
        found.append(Answer(question, text, lead=lead))
    if settings and not report.why_contended(settings[0]):
        where = _where(settings[0][0], settings, several_sizes(report.runs.table))
        found += _shares(settings[0], where if len(settings) > 1 else "")
    return found


def _pooled(configurations: Sequence[Configuration]) -> list[Configuration]:
    """One for all that take equal steps: they differ in how long or on what they train."""
    keys = [key for key in SAME if key not in NOT_IN_A_STEP]
    groups = grouped(configurations, lambda config: config.values(keys)).values()
    pooled = [Configuration("", pd.concat([config.runs for config in some])) for some in groups]
    if not pooled:
        return []
    table = pd.concat([config.runs for config in pooled])
    options = [option for option in differing(table) if option not in NOT_IN_A_STEP]
    names = labels([config.row for config in pooled], options, with_workers=several_sizes(table))
    return [replace(config, label=name) for config, name in zip(pooled, names, strict=True)]


def _reached_by(configurations: Sequence[Configuration]) -> str:
    """Bytes and accuracy of the one with the shortest step, which alone has them in this line."""
    best, *others = measured(configurations, "step_median_s")
    config = next(config for config in configurations if config.label == best.label)
    if not_distinguishable(best, others) or len(set(config.runs["epochs"])) > 1:
        return ""
    payload = config.mean("train_payload_bytes")
    parts = [] if payload is None else [f"sent {bytes_text(payload)} in training, all nodes"]
    accuracy = config.means(["accuracy"])
    if (mean := accuracy["accuracy"]) is not None:
        sd = accuracy["accuracy_sd"]
        score = percent_text(mean) if sd is None else mean_text(percent_text, mean, sd)
        parts.append(f"reached {score}")
    return f" The fastest {' and '.join(parts)}." if parts else ""


def _told(
    report: Report, settings: Sequence[Sequence[Configuration]]
) -> list[Sequence[Configuration]]:
    """Of the contended settings only the first: the others have no order for the same reason."""
    quiet = [
        members
        for members in settings
        if sum(not report.is_contended(config) for config in members) > 1
    ]
    return quiet[:MOST_SETTINGS] or list(settings[:1])


def _left_out(lost: Sequence[Configuration]) -> str:
    """Named where they are few: what is left of a busy host's session is no list to read."""
    if not lost:
        return ""
    names = [config.label for config in _pooled(lost)]
    which = listed(names) if len(names) <= MOST_NAMES else f"{len(names)} configurations"
    return f" Not compared, since the host was contended: {which}."


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _where(
    configuration: Configuration, settings: Sequence[Sequence[Configuration]], with_workers: bool
) -> str:
    """What tells this setting from the others, and from runs that have none to compare with."""
    words: dict[str, Callable[[str], str]] = {
        "model": str,
        "workers": lambda n: f"{n} worker{'' if n == '1' else 's'}",
        "link": lambda link: "unlimited links" if link == "nan" else f"{link_text(link)} links",
        "batch_size": lambda size: f"batches of {size}",
        "engine": str,
    }
    told = [name for name in words if name == "workers" and with_workers]
    differ = [name for name in words if len({some[0].values([name]) for some in settings}) > 1]
    for name in differ:  # as many as tell the settings apart
        if len({some[0].values(told) for some in settings}) < len(settings) and name not in told:
            told.append(name)
    texts = [
        words[name](configuration.values([name])[0])
        for name in words
        if name in told and (name == "link" or not pd.isna(configuration.row[name]))
    ]
    return ", ".join([*(["programs"] if pd.isna(configuration.row["model"]) else []), *texts])


def _shares(members: Sequence[Configuration], where: str) -> list[Answer]:
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
    overlapping = {name for name, facts in STRATEGIES.items() if facts.overlaps_backward}
    hidden = [member.strategy for member in members if member.strategy in overlapping]
    more = f"; of {hidden[0]} it is not known, it exchanges during backward" if hidden else ""
    question = "Communication, share of a step" + (f", {where}" if where else "")
    return [Answer(question, f"{' to '.join(dict.fromkeys(ends))}{more}.")]


def _slow_nodes(report: Report) -> list[Answer]:
    """Grey where no case has an order."""
    found = []
    for study in find_studies(report.runs):
        cases = extremes_by_case(study)
        if cases and all(steps.startswith("no order") for steps in cases.values()):
            reason = next(iter(cases.values()))
            found.append(Answer(_slow(study), _capital(reason), grey=True))
        elif cases:
            none = [case for case, steps in cases.items() if steps.startswith("no order")]
            lead, *others = (f"{case}: {cases[case]}" for case in cases if case not in none)
            text = f"{'; '.join(['', *others])}. Steps of the slowest node; {study.title}."
            lost = f" No order, since the host was contended: {listed(none)}." if none else ""
            found.append(Answer(_slow(study), text + lost, lead=lead))
    return found


def _slow(study: Study) -> str:
    cases = [case for compared in study.comparisons for case in compared.cases]
    what = ["link"] if any(case.bottleneck for case in cases) else []
    what += ["CPU"] if any(case.straggler for case in cases) else []
    return f"With a slow {' or '.join(what) or 'node'}"


def _speed_up(report: Report) -> list[Answer]:
    """Of the series with the most workers, its best strategy; sizes that are contended left out."""
    every = report.configurations
    held = [config for config in every if not by_verdict(config.runs)]
    found = [
        series
        for series in find_series(report.runs, held) or find_series(report.runs, every)
        if sum(_tells_contention(run) for run in series.runs) > 1
    ]
    if not found:
        return []
    best = max(found, key=lambda series: (series.sizes[-1].workers, series.sizes[-1].speed_up))
    if reason := next((text for run in best.runs for text in by_verdict(run.runs).values()), ""):
        return [Answer("Speed-up", _capital(reason), grey=True)]
    first, last = best.sizes[0], best.sizes[-1]
    base = f"{first.workers} worker{'' if first.workers == 1 else 's'}"
    lead = f"{last.workers} workers reach {last.speed_up:.2f}×"
    if last.speed_up < 1:
        lead = f"{last.workers} workers are slower than {base}: {last.speed_up:.2f}×"
    text = (
        f" the samples per second of {base} ({best.label}); ideal"
        f" {last.workers / first.workers:.3g}×, efficiency {percent_text(last.efficiency, 0)}."
    )
    if reason := why_contended(report, best):
        text += f" Not reliable: {reason.removeprefix('no order: ')}."
    return [Answer("Speed-up", text, bool(reason), lead)]


def _tells_contention(configuration: Configuration) -> bool:
    """By a verdict, or by its computing, which ddp hides."""
    recorded = without_verdict(configuration.runs).empty
    return recorded or configuration.median("compute_median_s") is not None


def _score(configurations: Sequence[Configuration]) -> Answer:
    """Accuracy, or bits per byte."""
    score = score_of(configurations[0].row)
    found = scores(configurations, score)
    if not found:
        return Answer(score.name.capitalize(), "not known: no run has a finite loss.")
    if score is ACCURACY and all(config.is_chance_level for config in configurations):
        best = value_text(found[0], score.text)
        return Answer("Accuracy", f"; the highest is {best}.", lead="no better than guessing")
    question = score.winner if len(found) > 1 else score.name.capitalize()
    lead, rest = ranked(found, score.text)
    return Answer(question, rest, lead=lead)


def _bytes(report: Report, configurations: Sequence[Configuration]) -> list[Answer]:
    """Fewest bytes to the target accuracy, of those that reached it in all their runs."""
    target = report.target_of(configurations)
    if target is None:
        return _bytes_sent(configurations)
    costs, uncounted = [], False
    for configuration in configurations:
        got = reached(report.runs, configuration, target)
        uncounted |= bool(got.seeds) and got.payload_bytes is None
        if got.payload_bytes and got.seeds == got.of:
            costs.append((got.payload_bytes, configuration.label))
    aim = target_text(target, score_of(configurations[0].row))
    question = f"{'Fewest bytes' if len(costs) > 1 else 'Bytes'} to {aim}"
    if not costs:
        text = "no strategy that sends anything reached it in all of its runs."
        if uncounted:
            text = "unknown: the GPUs' exchange did not cross eth0, where bytes are counted."
        return [Answer(question, text)]
    costs.sort()
    (least, _), (most, highest) = costs[0], costs[-1]
    equal = [label for sent, label in costs if sent <= SAME_BYTES * least][1:]
    rest = [(sent, label) for sent, label in costs if sent > SAME_BYTES * least]
    parts = [f"as few: {listed(equal, 1)}"] if equal else []
    if len(rest) > 1:
        parts.append(f"next: {rest[0][1]}, {bytes_text(rest[0][0])} ({rest[0][0] / least:.1f}×)")
    if rest:
        parts.append(f"most: {highest}, {bytes_text(most)} ({most / least:.1f}×)")
    lead = f"{costs[0][1]}, {bytes_text(least)}"
    averaged = [config.strategy for config in configurations if final_averaging_bytes(config)]
    virtual = {config.is_virtual for config in configurations}
    counted = "payload of all nodes"
    if True in virtual:
        counted += " (predicted)" if virtual == {True} else " (of virtual workers predicted)"
    if averaged:
        counted += f", {listed(list(dict.fromkeys(averaged)))} with the final averaging"
    some = f"; {len(costs)} of {len(configurations)} reached it in every run"
    return [Answer(question, "; ".join(["", *parts, counted]) + f"{some}.", lead=lead)]


def _bytes_sent(configurations: Sequence[Configuration]) -> list[Answer]:
    """Where no accuracy is worth a comparison: what training sent, least and most."""
    found = [number for number in measured(configurations, "train_payload_bytes") if number.mean]
    if not found:
        return []
    ends = [f"{bytes_text(number.mean)} ({number.label})" for number in (found[0], found[-1])]
    lead = f"{' to '.join(dict.fromkeys(ends))}"
    return [Answer("Bytes of training", "; payload of all nodes.", lead=lead)]


def _burst(runs: Runs, configurations: Sequence[Configuration]) -> str:
    """A token bucket lets its burst through before it throttles."""
    first = configurations[0]
    bursts = first.rows(runs.links)["burst_bytes"].dropna()
    if pd.isna(first.row["model_bytes"]):
        return ""
    size = float(first.row["model_bytes"])
    if bursts.empty or bursts.max() <= BURST * size:
        return ""
    burst = float(bursts.max())
    return (
        f" The rate of the links hardly limits this model: their burst is {bytes_text(burst)},"
        f" {percent_text(burst / size, 0)} of it."
    )
