"""What every section is made from."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.tables.configurations import Configuration, find_configurations, named
from analysis.tables.labels import several_sizes
from analysis.tables.load import Runs


@dataclass(frozen=True)
class Report:
    runs: Runs
    configurations: tuple[Configuration, ...]
    target: float | None = None
    """The accuracy whose cost is asked for; None is one that half of the configurations reach."""

    @classmethod
    def of(cls, runs: Runs, target: float | None = None) -> Report:
        return cls(runs, tuple(find_configurations(runs)), target)

    @property
    def tasks(self) -> dict[str, list[Configuration]]:
        """By what is learned, those with an accuracy."""
        found: dict[str, list[Configuration]] = {}
        for one in self.configurations:
            if self.runs.table.loc[list(one.numbers), "accuracy"].notna().any():
                found.setdefault(one.task, []).append(one)
        sizes = several_sizes(self.runs.table)
        return {task: named(members, with_workers=sizes) for task, members in found.items()}
