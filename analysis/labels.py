"""What a run is called in tables and figures: its strategy, and what tells it from the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.load import KNOBS
from cluster.strategies import says_nothing
from cluster.units import knob_text


def differing(runs: pd.DataFrame) -> list[str]:
    """The knobs that tell these runs apart."""
    readable = runs[runs["strategy"].notna()]
    return [
        knob
        for knob in KNOBS
        if readable[knob].nunique(dropna=False) > 1
        and not says_nothing(knob, readable["strategy"], readable[knob])
    ]


def label(run: pd.Series[Any], knobs: Sequence[str], *, with_workers: bool = True) -> str:
    """What was run, in words; a run that cannot be read has only its name."""
    if pd.isna(run["strategy"]):
        return str(run["run"])
    schedule = "" if pd.isna(run["schedule"]) else f" ({run['schedule']})"
    workers = [f"{run['workers']} worker{'' if run['workers'] == 1 else 's'}"]
    workers = workers if with_workers else []
    passes = [] if pd.isna(run["passes"]) else [f"passes {run['passes']}"]
    others = [
        f"{k.replace('_', ' ')} {knob_text(run[k])}"
        for k in knobs
        if not pd.isna(run[k]) and (k, run[k]) != ("local_steps", 1)
    ]
    return ", ".join([run["strategy"] + schedule, *workers, *passes, *others])
