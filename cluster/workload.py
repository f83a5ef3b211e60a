"""--workload NAME: a model, its data and how it is usually trained; flags beside it replace its options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from cluster.observe.units import option_text
from cluster.spec.catalogue import WORKLOADS
from cluster.spec.errors import SpecError

SAME = {"batch_size": "global_batch_size", "global_batch_size": "batch_size"}
"""Two ways to say one thing: whoever says one means neither of the workload's."""


Choose = Callable[[str, Sequence[str]], str]
"""The name of a workload, and models whose weights may be out of reach -> the one to take."""


def take_last(workload: str, models: Sequence[str]) -> str:
    """The one that can be had anywhere; no one is asked."""
    return models[-1]


def expand(args: argparse.Namespace, choose: Choose) -> list[argparse.Namespace]:
    """One set of flags for each workload that was named; just the flags themselves where none was."""
    if args.workload is None:
        return [args]
    return [_with(args, name.strip(), choose) for name in args.workload.split(",")]


def _with(args: argparse.Namespace, name: str, choose: Choose) -> argparse.Namespace:
    if name not in WORKLOADS:
        raise SpecError(f"unknown workload {name!r}; there is: {', '.join(WORKLOADS)}")
    given = {option for option, value in vars(args).items() if value is not None}
    usual = {
        option: choose(name, value) if isinstance(value, tuple) else option_text(value)
        for option, value in WORKLOADS[name].items()
        if option not in given and SAME.get(option) not in given
    }
    return argparse.Namespace(**{**vars(args), **usual})
