"""Presets and workloads: sets of flags by name, expanded before flags become experiments.

A preset is a list of runs, of workloads/presets/NAME.toml or a file of the user's own
(docs/sweeps.md); each names options as the flags do, with a value or a list of values. A workload
(cluster/spec/catalogue.py) is a model, its data and how it is usually trained, an algorithm
(cluster/spec/exchange/algorithms.py) a strategy with its options. Flags beside a preset go for all
its runs, flags beside a workload or an algorithm replace its own.

A preset's quick variant (--quick) ends within ten minutes on two cores. Options in the table
[quick] replace those of all runs, options in a run's own [runs.quick] those of that run;
`quick = false` leaves the run out.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster import PROJECT, own_files
from cluster.observe.units import option_text
from cluster.spec.catalogue import WORKLOADS
from cluster.spec.errors import SpecError, one_of
from cluster.spec.exchange import algorithms
from cluster.spec.exchange.algorithms import ALGORITHMS
from cluster.sweep.preset_file import Options, Preset, read_preset

REPEATED = (
    *("bottleneck", "sites", "between", "inside", "link_trace", "background"),
    *("straggler", "program", "fault", "storm"),
)
"""Options whose commas list nodes or are the user's: several cases are the flag, repeated."""
FOLDER = PROJECT / "workloads" / "presets"
SUFFIX = ".toml"
SAME = {"batch_size": "global_batch_size", "global_batch_size": "batch_size"}
"""Two ways to give the batch size: either of them replaces the workload's."""

Choose = Callable[[str, Sequence[str]], str]
"""A workload's name, and models whose weights may be out of reach -> the model to take."""


def take_last(workload: str, models: Sequence[str]) -> str:
    """The model that is available everywhere; nothing is looked up."""
    return models[-1]


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def title(name: str) -> str:
    return _read(name).title


def memory_may_end(name: str) -> bool:
    return _read(name).memory_may_end


def has_quick(name: str) -> bool:
    return _read(name).has_quick


def announcement(args: argparse.Namespace) -> list[str]:
    """The preset's title, and which flags replace other values of the preset."""
    if args.preset is None:
        return []
    lines = [f"preset {args.preset}: {title(args.preset)}"]
    for option, given in vars(args).items():
        texts = [_as_typed(option, run[option]) for run, _ in _runs(args) if option in run]
        others = dict.fromkeys(option_text(text) for text in texts if text != given)
        if given not in (None, False) and others:
            flag = option.replace("_", "-")
            lines.append(f"--{flag} {option_text(given)} replaces the preset's {', '.join(others)}")
    return lines


def expand(args: argparse.Namespace, choose: Choose = take_last) -> list[argparse.Namespace]:
    """The flags of each run of the preset, with the options of workloads and algorithms."""
    runs = [flags for run in _expand_preset(args) for flags in _expand_workloads(run, choose)]
    return [flags for run in runs for flags in _expand_algorithms(run)]


def _expand_preset(args: argparse.Namespace) -> list[argparse.Namespace]:
    """Each has an `origin`: file and line of a preset's run, else empty."""
    if args.preset is None:
        if args.quick:
            raise SpecError("quick is a preset's shorter variant: it goes with --preset")
        return [argparse.Namespace(**vars(args), origin="")]
    given = {name: value for name, value in vars(args).items() if value not in (None, False)}
    sets = []
    for options, origin in _runs(args):
        named = {n: own_files.beside(_path(args.preset), n, v) for n, v in options.items()}
        texts = {name: _as_typed(name, value) for name, value in named.items()}
        sets.append(argparse.Namespace(**{**vars(args), **texts, **given}, origin=origin))
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


def _expand_algorithms(args: argparse.Namespace) -> list[argparse.Namespace]:
    if args.algorithm is None:
        return [args]
    names = dict.fromkeys(name.strip() for name in args.algorithm.split(","))
    return [_with_algorithm(args, name) for name in names]


def _with_algorithm(args: argparse.Namespace, name: str) -> argparse.Namespace:
    given = {option: value for option, value in vars(args).items() if value is not None}
    if name == algorithms.NONE:
        return argparse.Namespace(**{**vars(args), "algorithm": None})
    one_of("algorithm", name, [*ALGORITHMS, algorithms.NONE])
    usual = {option: option_text(value) for option, value in ALGORITHMS[name].options.items()}
    return argparse.Namespace(**{**vars(args), **usual, **given, "algorithm": name})


def _runs(args: argparse.Namespace) -> list[tuple[Options, str]]:
    """The options of each run and where they are from, in the whole preset or its quick variant."""
    preset = _read(args.preset)
    if not args.quick:
        return [(run.options, run.origin) for run in preset.runs]
    if not preset.has_quick:
        raise SpecError(f"preset {args.preset} has no quick variant; leave out --quick")
    return [
        (run.options | preset.quick | run.quick, run.origin)
        for run in preset.runs
        if run.quick is not None
    ]


def _read(name: str) -> Preset:
    if _is_file(name):
        return read_preset(Path(name), name)
    one_of("preset", name, [*names(), "FILE.toml"])
    return read_preset(_path(name), f"preset {name}")


def _is_file(name: str) -> bool:
    return name.endswith(SUFFIX) or "/" in name


def _path(name: str) -> Path:
    return Path(name) if _is_file(name) else FOLDER / f"{name}{SUFFIX}"


def _as_typed(name: str, value: object) -> str | list[str]:
    """As argparse has it when a person typed it; a flag that is repeated is a list."""
    texts = [option_text(item) for item in (value if isinstance(value, list) else [value])]
    return texts if name in REPEATED else ",".join(texts)
