"""What every section is made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from analysis.report.accuracy.curves import usual_target
from analysis.tables.configurations import Configuration, find_configurations, grouped, named
from analysis.tables.contention import by_verdict, without_verdict
from analysis.tables.labels import differing, labels, several_sizes
from analysis.tables.load import Runs
from analysis.tables.noise import unequal_computing
from analysis.tables.score import Target, score_of
from cluster.spec.documents.environment import Environment

SAME_COMPUTING = (
    *(
        "engine",
        "launcher",
        "model",
        "dataset",
        "batch_size",
        "workers",
        "cpus",
        "straggler",
        "gpu",
    ),
    *("optimizer", "augment"),
)
"""Where these are equal a step's computing takes equally long, unless the host is contended."""


@dataclass(frozen=True)
class Report:
    runs: Runs
    configurations: tuple[Configuration, ...]
    target: Target | None = None
    """The score whose cost is compared; None, and of tasks that are judged by another score: one
    that half of the configurations reach."""

    @classmethod
    def of(cls, runs: Runs, target: Target | None = None) -> Report:
        return cls(runs, tuple(find_configurations(runs)), target)

    @cached_property
    def tasks(self) -> dict[str, list[Configuration]]:
        """Configurations with an accuracy, by what they learn."""
        scored = [config for config in self.configurations if config.mean("accuracy") is not None]
        tasks = grouped(scored, lambda config: config.task)
        sizes = several_sizes(self.runs.table)
        return {task: named(members, with_workers=sizes) for task, members in tasks.items()}

    def target_of(self, configurations: Sequence[Configuration]) -> float | None:
        """The target of a task: the given one, or one that half of them reach."""
        if self.target is not None and score_of(configurations[0].row) is self.target.score:
            return self.target.value
        return usual_target(self.runs, configurations)

    @cached_property
    def contended(self) -> dict[int, str]:
        """By number of a run: why its times allow no conclusion."""
        found = by_verdict(self.runs.completed)
        unknown = _without_verdicts(self.configurations)
        for members in grouped(unknown, lambda c: c.values(SAME_COMPUTING)).values():
            if reason := computing_differs(members):
                found |= {number: reason for config in members for number in config.numbers}
        return found

    def why_contended(self, configurations: Iterable[Configuration]) -> str:
        """Of the first of them that is; empty where none is."""
        numbers = (number for config in configurations for number in config.numbers)
        return next((self.contended[number] for number in numbers if number in self.contended), "")

    def is_contended(self, configuration: Configuration) -> bool:
        """One contended run of several is enough: it is part of every mean."""
        return any(number in self.contended for number in configuration.numbers)

    @cached_property
    def environments(self) -> dict[str, Environment]:
        """By session: of its first run that recorded it."""
        found: dict[str, Environment] = {}
        for number, environment in self.runs.environments.items():
            found.setdefault(str(self.runs.table.loc[number, "session"]), environment)
        return found

    @cached_property
    def run_names(self) -> dict[int, str]:
        """By number: the number, and what tells a run from the others of the same model."""
        table = self.runs.table
        found: dict[int, str] = {}
        for _, members in table.groupby("model", sort=False, dropna=False):
            rows = [run for _, run in members.iterrows()]
            texts = labels(rows, differing(members), with_workers=several_sizes(table))
            numbers = [int(str(number)) for number in members.index]
            found |= {n: f"{n}\u2002{text}" for n, text in zip(numbers, texts, strict=True)}
        return found


def computing_differs(configurations: Iterable[Configuration]) -> str:
    """Why their steps have no order; empty where they have one.

    A run is contended, or of those without a verdict computing that should be equal is not.
    """
    given = list(configurations)
    if reason := next((text for c in given for text in by_verdict(c.runs).values()), ""):
        return reason
    unknown = _without_verdicts(given)
    return unequal_computing(
        [config.median("compute_median_s") for config in unknown],
        [config.median("step_median_s") for config in unknown],
    )


def _without_verdicts(configurations: Iterable[Configuration]) -> list[Configuration]:
    """Their runs without a verdict, where there are any."""
    parts = (replace(config, runs=without_verdict(config.runs)) for config in configurations)
    return [part for part in parts if not part.runs.empty]
