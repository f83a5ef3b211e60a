"""--continue RUN --epochs E: train on where a run ended, for E more epochs.

The new run is a run of its own, with the options of the old one. Options that change what is
trained cannot be given beside it; those of links and cores can. The workers' states are copied into
the new run folder, where nodes read them at the beginning and replace them at the end.
"""

import argparse
import dataclasses
import shutil
from pathlib import Path
from typing import Any

from cluster import own_files, plan
from cluster.spec import own_code
from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.node_files import open_regular
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.session_plan import COMPLETED
from cluster.spec.errors import SpecError
from cluster.spec.experiment import EXISTING, Experiment, node_name

FLAG = "continue"
"""A word of Python, too: args.continue cannot be written."""
BESIDE = ("output", "quiet", "json", "no_report", "live", "dry_run", "data_dir")
"""Flags that are no option of a run, and go with it."""
MAY_DIFFER = (
    *("engine", "cpus", "dilation", "link", "bottleneck", "straggler", "total_memory"),
    *("interval", "test_size", "save_state"),
)
"""Options that do not change what is trained."""


def experiment_of(args: argparse.Namespace) -> Experiment:
    """The run to do; SpecError for one that cannot be continued, or that would be another."""
    path: Path = getattr(args, FLAG)
    earlier = _read(path)
    given = {name for name, value in vars(args).items() if value not in (None, False)}
    options = {field.name for field in dataclasses.fields(Experiment)}
    for name in sorted(given - options - {FLAG, *BESIDE}):
        raise SpecError(f"{name} does not go with --continue: a run goes on as it began")
    if "epochs" not in given:
        raise SpecError(f"continue {path}: --epochs E says how many more epochs")
    values = plan.value_lists(args)
    changes: dict[str, Any] = {}
    for name in sorted(given & options):
        if len(values[name]) != 1:
            raise SpecError(f"{name} takes one value beside --continue")
        (value,) = values[name]
        recorded = getattr(earlier, name)
        if name == "epochs" or name in MAY_DIFFER:
            changes[name] = value
        elif value != recorded:
            raise SpecError(
                f"{name} {value} is not that of {path.name}, {recorded}: the state that a run goes"
                f" on with is that of its own {name}; leave it out"
            )
    return dataclasses.replace(
        earlier,
        **changes,
        continues=str(path.resolve()),
        epochs_before=earlier.epochs_before + earlier.epochs,
    )


def _read(path: Path) -> Experiment:
    """A completed run with the states of all its nodes, whose own code is as it was."""
    folder = RunFolder(path.resolve())
    if not folder.spec.exists():
        hint = next(iter(sorted(folder.path.glob("*/spec.json"))), None)
        which = f"it is a session; name one of its runs, such as {hint.parent}" if hint else ""
        raise SpecError(f"continue {path} is no run: {which or 'it has no spec.json'}")
    try:
        earlier = folder.read_experiment()
        status = folder.read_summary().status
    except FileNotFoundError:
        raise SpecError(f"continue {path}: the run has not ended (--resume SESSION)") from None
    except DocumentError as error:
        raise SpecError(f"continue {path}: {error}") from None
    if status != COMPLETED:
        raise SpecError(f"continue {path}: the run is {status}; repeat it first")
    if not earlier.save_state:
        raise SpecError(f"continue {path}: it kept no state; train it with --save-state")
    for name in _writers(earlier):
        if not folder.files_of(name).state.is_file():
            raise SpecError(f"continue {path}: {name}'s state is missing")
    _check_own_code(path, earlier)
    return earlier


def _writers(experiment: Experiment) -> list[str]:
    return [node_name(rank) for rank in range(experiment.nodes)]


def _check_own_code(path: Path, earlier: Experiment) -> None:
    values = {option: getattr(earlier, option) for option in own_code.OPTIONS}
    files = own_code.files_of(values)
    if not files:
        return
    typed = {option: f"{earlier.folder}/{values[option]}" for option in files}
    found = own_files.locate({**typed, "folder": earlier.folder})
    if found["code_sha256"] != earlier.code_sha256:
        raise SpecError(
            f"continue {path}: {', '.join(typed.values())} changed since the run was made"
        )


def copy_states(experiment: Experiment, folder: RunFolder) -> None:
    """Into a new run's folder, the states that it begins with."""
    if experiment.continues is None:
        return
    if experiment.engine == EXISTING:
        raise SpecError("continue is for nodes on this machine, not for hosts of your own")
    earlier = RunFolder(Path(experiment.continues))
    for name in _writers(experiment):
        with open_regular(earlier.files_of(name).state) as source:
            with folder.files_of(name).state.open("wb") as copy:
                shutil.copyfileobj(source, copy)
