"""The preset frontier: every composition of every task, with the options that the search found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.search.found import best_of, read_trials
from bench.search.tasks import Options, Task

PRESET = Path(__file__).resolve().parents[2] / "workloads" / "presets" / "frontier.toml"
HEAD = """\
# ./measure.sh --preset frontier            three tasks, three seeds each
# ./measure.sh --preset frontier --quick    MNIST, 6 epochs, two seeds
#
# Accuracy (or loss) against bytes: all-reduce beside algorithms that send less. Written by
# python3 -m bench.search --preset: the options of each were searched for with the same number of
# trials, on training samples that these runs leave out, with other seeds (bench/search/tasks.toml).

title = "accuracy per byte: all-reduce beside algorithms that send less"

[quick]
epochs = 6
repeat = 2
"""
QUICK = "mnist"
REPEAT = 3


def write(tasks: Mapping[str, Task]) -> None:
    PRESET.write_text(text(tasks))


def text(tasks: Mapping[str, Task]) -> str:
    return "\n".join([HEAD, *(as_toml(run) for run in runs(tasks))])


def runs(tasks: Mapping[str, Task]) -> Iterator[Options]:
    """Of compositions that were not searched yet, with the usual learning rate."""
    for task in tasks.values():
        trials = read_trials(task.found)
        for composition in task.compositions:
            own = [trial for trial in trials if trial.composition == composition.name]
            best = best_of(own).options if own else {}
            quick = {} if task.name == QUICK else {"quick": False}
            own_options = {
                name: v for name, v in task.options.items() if name not in composition.fixed
            }
            yield {**composition.fixed, **own_options, **best, "repeat": REPEAT, **quick}


def as_toml(run: Options) -> str:
    lines = [f"{name} = {json.dumps(value)}" for name, value in run.items()]
    return "\n".join(["[[runs]]", *lines]) + "\n"
