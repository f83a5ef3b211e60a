"""Presets and workloads: sets of flags by name, expanded before flags become experiments.

A preset (workloads/presets/NAME.toml) is a list of runs; each names options as the flags do, with a
value or a list of values. A workload (cluster/spec/catalogue.py) is a model, its data and how it is
usually trained. Flags beside a preset go for all its runs, flags beside a workload replace its own.

A preset's quick variant (--quick) ends within ten minutes on two cores. Options in the table
[quick] replace those of all runs, options in a run's own [runs.quick] those of that run;
`quick = false` leaves the run out.
"""

import argparse
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

from cluster import PROJECT
from cluster.observe.units import option_text
from cluster.spec.catalogue import WORKLOADS
from cluster.spec.errors import SpecError, one_of

REPEATED = ("bottleneck", "straggler")
"""Options whose commas list nodes: several cases are the flag, repeated."""
FOLDER = PROJECT / "workloads" / "presets"
SAME = {"batch_size": "global_batch_size", "global_batch_size": "batch_size"}
"""Two ways to give the batch size: either of them replaces the workload's."""

Choose = Callable[[str, Sequence[str]], str]
"""A workload's name, and models whose weights may be out of reach -> the model to take."""


def take_last(workload: str, models: Sequence[str]) -> str:
    """The model that is available everywhere; nothing is looked up."""
    return models[-1]


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def title(name: str) -> str:
    return str(_read(name)["title"])


def has_quick(name: str) -> bool:
    preset = _read(name)
    return bool(preset.get("quick")) or any("quick" in run for run in preset["runs"])


def expand(args: argparse.Namespace, choose: Choose = take_last) -> list[argparse.Namespace]:
    """The flags of each run of the preset, with the options of each workload filled in."""
    return [flags for run in _expand_preset(args) for flags in _expand_workloads(run, choose)]


def _expand_preset(args: argparse.Namespace) -> list[argparse.Namespace]:
    if args.preset is None:
        if args.quick:
            raise SpecError("quick is a preset's shorter variant: it goes with --preset")
        return [args]
    given = {name: value for name, value in vars(args).items() if value not in (None, False)}
    sets = []
    for run in _runs(args.preset, args.quick):
        unknown = sorted(set(run) - set(vars(args)))
        if unknown:
            raise SpecError(f"preset {args.preset}: unknown option {', '.join(unknown)}")
        texts = {name: _as_typed(name, value) for name, value in run.items()}
        sets.append(argparse.Namespace(**{**vars(args), **texts, **given}))
    return sets


def _expand_workloads(args: argparse.Namespace, choose: Choose) -> list[argparse.Namespace]:
    if args.workload is None:
        return [args]
    names = dict.fromkeys(name.strip() for name in args.workload.split(","))
    return [_with_workload(args, name, choose) for name in names]


def _with_workload(args: argparse.Namespace, name: str, choose: Choose) -> argparse.Namespace:
    one_of("workload", name, WORKLOADS)
    given = {option for option, value in vars(args).items() if value is not None}
    usual = {
        option: choose(name, value) if isinstance(value, tuple) else option_text(value)
        for option, value in WORKLOADS[name].items()
        if option not in given and SAME.get(option) not in given
    }
    return argparse.Namespace(**{**vars(args), **usual})


def _runs(name: str, quick: bool) -> list[dict[str, Any]]:
    """The options of each run, in the whole preset or in its quick variant."""
    preset = _read(name)
    runs = [dict(run) for run in preset["runs"]]
    variants = [run.pop("quick", {}) for run in runs]
    if not quick:
        return runs
    if not has_quick(name):
        raise SpecError(f"preset {name} has no quick variant; leave out --quick")
    return [
        run | preset.get("quick", {}) | variant
        for run, variant in zip(runs, variants, strict=True)
        if variant is not False
    ]


def _read(name: str) -> dict[str, Any]:
    one_of("preset", name, names())
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


def _as_typed(name: str, value: object) -> str | list[str]:
    """As argparse has it when a person typed it; a flag that is repeated is a list."""
    texts = [option_text(item) for item in (value if isinstance(value, list) else [value])]
    return texts if name in REPEATED else ",".join(texts)
