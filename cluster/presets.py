"""Presets: published or recommended experiments as data, in workloads/presets/*.toml.

A preset is a list of runs; each names knobs as the flags do, with a value or a list of values. What a
person types beside --preset goes for all of its runs.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from cluster.spec import SpecError

FOLDER = Path(__file__).resolve().parent.parent / "workloads" / "presets"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def title(name: str) -> str:
    return str(_read(name)["title"])


def expand(args: argparse.Namespace) -> list[argparse.Namespace]:
    """One set of flags for each run of the preset; just the flags themselves where there is none."""
    if args.preset is None:
        return [args]
    given = {name: value for name, value in vars(args).items() if value not in (None, False)}
    sets = []
    for run in _read(args.preset)["runs"]:
        unknown = sorted(set(run) - set(vars(args)))
        if unknown:
            raise SpecError(f"preset {args.preset}: unknown knob {', '.join(unknown)}")
        texts = {name: _text(value) for name, value in run.items()}
        sets.append(argparse.Namespace(**{**vars(args), **texts, **given}))
    return sets


def _read(name: str) -> dict[str, Any]:
    if name not in names():
        raise SpecError(f"unknown preset {name!r}; there is: {', '.join(names())}")
    return tomllib.loads((FOLDER / f"{name}.toml").read_text())


def _text(value: object) -> str:
    """As a person would type it."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
