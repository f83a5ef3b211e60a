"""Presets: published or recommended experiments as data, in workloads/presets/*.toml.

A preset is a list of runs; each names options as the flags do, with a value or a list of values. What a
person types beside --preset goes for all of its runs.

Its quick variant (--quick) ends within ten minutes on two cores. Options in the table [quick] replace those
of all runs, options in a run's own [runs.quick] those of that run; `quick = false` leaves the run out.
"""

from __future__ import annotations

import argparse
import tomllib
from typing import Any

from cluster import PROJECT
from cluster.observe.units import option_text
from cluster.spec.errors import SpecError

REPEATED = ("bottleneck", "straggler")
"""Options whose commas list nodes: a list in a preset is the flag, repeated."""
FOLDER = PROJECT / "workloads" / "presets"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def title(name: str) -> str:
    return str(_read(name)["title"])


def expand(args: argparse.Namespace) -> list[argparse.Namespace]:
    """One set of flags for each run of the preset; just the flags themselves where there is none."""
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
        texts = {name: _typed(name, value) for name, value in run.items()}
        sets.append(argparse.Namespace(**{**vars(args), **texts, **given}))
    return sets


def _runs(name: str, quick: bool) -> list[dict[str, Any]]:
    """The options of each run, in the whole preset or in its quick variant."""
    preset = _read(name)
    runs = [dict(run) for run in preset["runs"]]
    own = [run.pop("quick", {}) for run in runs]
    if not quick:
        return runs
    for_all = preset.get("quick", {})
    if not for_all and not any(one != {} for one in own):
        raise SpecError(f"preset {name} has no quick variant; leave out --quick")
    return [run | for_all | one for run, one in zip(runs, own, strict=True) if one is not False]


def _read(name: str) -> dict[str, Any]:
    if name not in names():
        raise SpecError(f"unknown preset {name!r}; there is: {', '.join(names())}")
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


def _typed(name: str, value: object) -> str | list[str]:
    """As argparse has it when a person typed it; a flag that is repeated is a list."""
    values = [option_text(one) for one in (value if isinstance(value, list) else [value])]
    return values if name in REPEATED else ",".join(values)
