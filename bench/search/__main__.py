"""Search for the options of every composition of a task, by one protocol (tasks.toml).

    python3 -m bench.search mnist            trials on virtual workers; a file with all scores.
                                             Those that it has already are not made again
    python3 -m bench.search --preset         write the best into workloads/presets/frontier.toml

Every composition has the same number of trials. A trial's score is that of its final model on
training samples that all runs leave out; the test set has no part in it, nor have the seeds of
results.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.search import preset
from bench.search.found import Trial, read_trials, write_trials
from bench.search.tasks import Composition, Options, Task, read_tasks
from bench.tools.session import measure


def main(arguments: Sequence[str] | None = None) -> int:
    tasks = read_tasks()
    parser = argparse.ArgumentParser(prog="python3 -m bench.search", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("task", nargs="?", choices=list(tasks))
    parser.add_argument("--only", metavar="COMPOSITION", help="a single composition of the task")
    parser.add_argument("--preset", action="store_true", help="write the preset: no new trials")
    args = parser.parse_args(arguments)
    if (args.task is None) != args.preset:
        parser.error("name a task, or give --preset")
    if args.preset:
        preset.write(tasks)
        return 0
    task = tasks[args.task]
    names = [composition.name for composition in task.compositions]
    if args.only not in (None, *names):
        parser.error(f"--only must be one of {', '.join(names)}, not {args.only}")
    for composition in task.compositions:
        if args.only in (None, composition.name):
            _search(task, composition)
    return 0


def _search(task: Task, composition: Composition) -> None:
    """Each trial is a session, and is written when it has ended: an interrupted search goes on."""
    for point in composition.trials(task.name, task.trials):
        _try_once(task, composition, point)


def _try_once(task: Task, composition: Composition, point: Options) -> None:
    known = read_trials(task.found)
    if any((t.composition, t.options) == (composition.name, point) for t in known):
        return
    trial = _try(task, composition, point)
    now = read_trials(task.found)  # another search may have added to it
    write_trials(task.found, [*now, trial], [each.name for each in task.compositions])


def _try(task: Task, composition: Composition, point: Options) -> Trial:
    with tempfile.TemporaryDirectory(prefix="gradwire-search-") as folder:
        file = Path(folder, "search.toml")
        run = {**task.options, **composition.fixed, **point}
        file.write_text(preset.as_toml(run))
        flags = ("--virtual", "--score-on", "held-out", "--seed", str(task.seed))
        (summary,) = measure("--preset", str(file), "--engine", "netns", *flags)
    sent = (summary.curve[-1].sent_bytes or 0) / int(summary.spec["workers"] or 1)
    return Trial(composition.name, point, summary.accuracy, summary.loss, sent)


if __name__ == "__main__":
    sys.exit(main())
