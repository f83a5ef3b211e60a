"""What is searched: tasks, compositions, and the trials that are drawn for each. Pure."""

from __future__ import annotations

import itertools
import random
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
TASKS = FOLDER / "tasks.toml"
Options = dict[str, Any]


@dataclass(frozen=True)
class Composition:
    name: str
    fixed: Options
    lists: dict[str, list[Any]]

    def trials(self, task: str, count: int) -> list[Options]:
        """So many points of the product of its lists, drawn by name: others do not change them."""
        points = [
            dict(zip(self.lists, values, strict=True))
            for values in itertools.product(*self.lists.values())
        ]
        if len(points) <= count:
            return points
        chosen = random.Random(f"{task} {self.name}").sample(range(len(points)), count)
        return [points[place] for place in sorted(chosen)]


@dataclass(frozen=True)
class Task:
    name: str
    trials: int
    """Of each composition."""
    seed: int
    options: Options
    """Of the preset's runs."""
    shorter: Options
    """Options that trials have in their place, so that a search fits its budget."""
    compositions: tuple[Composition, ...]

    @property
    def found(self) -> Path:
        """The file with the score of every trial."""
        return FOLDER / f"{self.name}.csv"


def read_tasks(path: Path = TASKS) -> dict[str, Task]:
    document = tomllib.loads(path.read_text())
    return {
        name: Task(
            name,
            task["trials"],
            task["seed"],
            task["options"],
            task.get("shorter", {}),
            tuple(
                Composition(composition, parts["fixed"], parts["lists"])
                for composition, parts in task["compositions"].items()
            ),
        )
        for name, task in document.items()
    }
