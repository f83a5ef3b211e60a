"""Search for the options of every composition of a task, by one protocol (tasks.toml).

    python3 -m bench.search mnist                 trials on virtual workers; a file with all scores.
                                                  Those that it has already are not made again
    python3 -m bench.search mnist --seconds 240   begins no trial after that: go on another time
    python3 -m bench.search --preset              write the best into the preset frontier

Every composition has the same number of trials, and they take turns, so that an interrupted search
has been as long for each of them. A trial's score is that of its final model on training samples
that all runs leave out; the test set has no part in it, nor have the seeds of results.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.search import preset
from bench.search.found import Trial, add_trial, read_trials
from bench.search.tasks import Composition, Options, Task, read_tasks
from bench.tools.session import count, measure


def main(arguments: Sequence[str] | None = None) -> int:
    tasks = read_tasks()
    parser = argparse.ArgumentParser(prog="python3 -m bench.search", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("task", nargs="?", choices=list(tasks))
    parser.add_argument("--seconds", type=count, help="begin no trial after so many")
    parser.add_argument("--preset", action="store_true", help="write the preset: no new trials")
    args = parser.parse_args(arguments)
    if (args.task is None) != args.preset:
        parser.error("name a task, or give --preset")
    if args.preset:
        preset.write(tasks)
        return 0
    task, began = tasks[args.task], time.monotonic()
    for composition, point in missing(task):
        if args.seconds is not None and time.monotonic() - began > args.seconds:
            break
        add_trial(task.found, _try(task, composition, point))
    return 0


def missing(task: Task) -> Iterator[tuple[Composition, Options]]:
    """Trials that have no score yet: the first of every composition, then the second, ..."""
    known = [(trial.composition, trial.options) for trial in read_trials(task.found)]
    for turn in range(task.trials):
        for composition in task.compositions:
            points = composition.trials(task.name, task.trials)
            if turn < len(points) and (composition.name, points[turn]) not in known:
                yield composition, points[turn]


def _try(task: Task, composition: Composition, point: Options) -> Trial:
    with tempfile.TemporaryDirectory(prefix="gradwire-search-") as folder:
        file = Path(folder, "search.toml")
        run = {**task.options, **task.shorter, **composition.fixed, **point}
        file.write_text(preset.as_toml(run))
        flags = ("--virtual", "--score-on", "held-out", "--seed", str(task.seed))
        (summary,) = measure("--preset", str(file), "--engine", "netns", *flags)
    sent = (summary.curve[-1].sent_bytes or 0) / int(summary.spec["workers"] or 1)
    return Trial(composition.name, point, summary.accuracy, summary.loss, sent)


if __name__ == "__main__":
    sys.exit(main())
