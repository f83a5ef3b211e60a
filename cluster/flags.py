"""Flags -> experiments. The flags are made from the fields of Experiment; a value list is a sweep."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cluster import presets, workload
from cluster.observe.units import option_text
from cluster.spec.catalogue import DATASETS, MODELS, WORKLOADS
from cluster.spec.command_line import Parser
from cluster.spec.errors import SpecError
from cluster.spec.experiment import (
    COMPRESSIONS,
    ENGINES,
    LR_RULES,
    OFF,
    OPTIMIZERS,
    SHUFFLES,
    Experiment,
    strategies_with_passes,
)
from cluster.spec.ineffective import idle
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.links import NONE
from cluster.spec.strategies import (
    AVERAGES,
    BUFFERS,
    EXCHANGE_OPTIONS,
    REDUCTIONS,
    SCHEDULES,
    STRATEGIES,
)

GROUPS = {
    "strategy": "what is compared",
    "cluster": "the cluster",
    "training": "the training",
}
LISTS: dict[str, Iterable[str]] = {
    "strategy": STRATEGIES,
    "schedule": SCHEDULES,
    "average": AVERAGES,
    "reduce": REDUCTIONS,
    "compress": COMPRESSIONS,
    "buffers": BUFFERS,
    "engine": ("auto", *ENGINES),
    "launcher": LAUNCHERS,
    "optimizer": OPTIMIZERS,
    "lr_rule": LR_RULES,
    "shuffle": SHUFFLES,
}
YES_NO = {"yes": True, "no": False}
MOST_RUNS = 999
SINGLE_VALUED = ("engine", "interval", "seed")
CLUSTER_OF_SEVERAL = ("link", *presets.REPEATED)
"""What a baseline of one worker among other strategies goes without."""
WITH_NONE = (*CLUSTER_OF_SEVERAL, "total_memory")
"""Where `none` stands for no limit, also beside a preset that has one."""
EXAMPLES = """\
examples:
  ./measure.sh --workers 6 --passes 2              groups of three average their parameters
  ./measure.sh --workers 2,4,8                     a sweep: one all-reduce run for each size
  ./measure.sh --workers 6 --strategy allreduce,pairwise --passes 1,2 --repeat 3
  ./measure.sh --workers 4 --bottleneck none --bottleneck 2:20mbit
                                                   without and with a slow node
  ./measure.sh --preset frugal                     all-reduce's accuracy for a tenth of its bytes
  ./measure.sh --doctor                            what this machine can do

Most options take a list, comma separated; the runs are all combinations, and runs on equal nodes
share a cluster. Progress and the table go to standard error.
Exit code: 0 all runs completed, 1 a run failed, 2 a mistake in what was asked, 130 interrupted.
"""


def make_parser() -> Parser:
    parser = Parser(
        prog="./measure.sh",
        speaker="measure",
        description="Train on a cluster of N real nodes on this machine and count every byte:\n"
        "measured traffic, predicted traffic and accuracy, in one table.",
        epilog=_describe_choices() + EXAMPLES,
        allow_abbrev=False,
    )
    groups = {name: parser.add_argument_group(title) for name, title in GROUPS.items()}
    for field in dataclasses.fields(Experiment):
        if field.metadata:
            extra: dict[str, Any] = {"nargs": "?", "const": "yes"} if _kind(field) is bool else {}
            if field.name in presets.REPEATED:
                extra["action"] = "append"
            if field.name == "gpu":
                extra = {"nargs": "?", "const": "1"}
            groups[field.metadata["group"]].add_argument(
                _flag(field.name), metavar=field.metadata["unit"], help=_help(field), **extra
            )
    groups["cluster"].add_argument(
        "--spark-master",
        metavar="URL",
        help="run on a Spark cluster that is there already, with --launcher spark: spark://HOST:7077, yarn,"
        " k8s://... or local-cluster[N,CORES,MB]; its workers need the same Python, torch and Horovod as here",
    )
    groups["strategy"].add_argument(
        "--preset",
        metavar="NAME",
        help=f"a ready-made set of runs: {', '.join(presets.names())};"
        " flags beside it go for all of them",
    )
    groups["strategy"].add_argument(
        "--quick",
        action="store_true",
        help="the preset's quick variant, which ends within ten minutes on two cores",
    )
    groups["training"].add_argument(
        "--workload",
        metavar="NAME",
        help="a model, its data and how it is usually trained (below); flags beside it replace its options",
    )
    groups["training"].add_argument(
        "--global-batch-size",
        metavar="SAMPLES",
        help="samples per step, all workers together, instead of --batch-size: strong scaling",
    )
    groups["training"].add_argument(
        "--repeat",
        metavar="K",
        help="repeat every run with K seeds: SEED, SEED+1, ... (default: 1)",
    )
    groups["training"].add_argument(
        "--data-dir",
        metavar="FOLDER",
        type=Path,
        help="folder that already holds the data set's files (default: a cache, filled on first use)",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--output",
        metavar="FOLDER",
        type=Path,
        default=Path("runs"),
        help="where run folders go (default: runs)",
    )
    output.add_argument(
        "--prepare",
        metavar="FOLDER",
        type=Path,
        help="train nothing: write the run's folder, and say what to type on hosts of your own (torchrun)",
    )
    output.add_argument("--quiet", action="store_true", help="no progress, only the table")
    output.add_argument(
        "--json",
        action="store_true",
        help="print the summaries as one JSON array on standard output",
    )
    output.add_argument(
        "--no-report",
        action="store_true",
        help="write no report of the session: two seconds less, for programs that make many calls",
    )
    output.add_argument(
        "--doctor", action="store_true", help="say what this machine can do, and stop"
    )
    return parser


def make_experiments(
    args: argparse.Namespace, engine: str, choose: workload.Choose = workload.take_last
) -> list[Experiment]:
    """All runs that were asked for; those that fit one cluster stand side by side."""
    sets = [flags for preset in presets.expand(args) for flags in workload.expand(preset, choose)]
    given = Given()
    runs = [run for flags in sets for run in _combinations(flags, engine, given)]
    given.check(typed={name for name, value in vars(args).items() if value is not None})
    if len(runs) > MOST_RUNS:
        raise SpecError(f"that makes {len(runs):,} runs; a session has at most {MOST_RUNS}")
    return _neighbours(list(dict.fromkeys(runs)))


@dataclasses.dataclass
class Given:
    """Options that were given, by what became of them in the runs of a session."""

    turned: set[str] = dataclasses.field(default_factory=set)
    idle: dict[str, str] = dataclasses.field(default_factory=dict)

    def take(self, options: dict[str, Any]) -> dict[str, Any]:
        """Without those that would do nothing in this run."""
        model = options.get("model", Experiment.model)
        optimizer = options.get("optimizer", Experiment.optimizer)
        found = idle(model, optimizer)
        turned = {name for name, value in options.items() if value != OFF.get(name, ...)}
        self.idle |= {name: reason for name, reason in found.items() if name in turned}
        useful = {name: value for name, value in options.items() if name not in found}
        self.turned |= useful.keys()
        return useful

    def check(self, typed: set[str]) -> None:
        """A preset's or a workload's own are left out where they do nothing; a person's are refused."""
        for name, reason in self.idle.items():
            if name in typed and name not in self.turned:
                raise SpecError(f"{name} does not apply to {reason}")


def _combinations(args: argparse.Namespace, engine: str, given: Given) -> list[Experiment]:
    """All combinations of the value lists."""
    values: dict[str, Any] = {
        field.name: _values(field, getattr(args, field.name))
        for field in dataclasses.fields(Experiment)
        if field.metadata and field.name != "engine"
    }
    repeat = _number("repeat", args.repeat, int) if args.repeat is not None else 1
    if not 1 <= repeat <= 1000:
        raise SpecError(f"repeat must be between 1 and 1,000, not {repeat:,}")
    first_seed = (values["seed"] or [Experiment.seed])[0]
    values["seed"] = [first_seed + k for k in range(repeat)]
    if values["strategy"] is None:
        values["strategy"] = ["pairwise" if values["passes"] else "allreduce"]
    for name in values["strategy"]:
        if name not in STRATEGIES:
            raise SpecError(f"unknown strategy {name!r}; there is: {', '.join(STRATEGIES)}")
    for name in values["schedule"] or []:
        if name not in SCHEDULES:
            raise SpecError(f"unknown schedule {name!r}; there is: {', '.join(SCHEDULES)}")
    for name in ("passes", "schedule"):
        if values[name] and not any(STRATEGIES[s].has_passes for s in values["strategy"]):
            raise SpecError(
                f"{name} does not apply to strategy {', '.join(values['strategy'])}; it applies to:"
                f" {', '.join(strategies_with_passes())}"
            )

    whole_batch = _whole_batch(args)
    if whole_batch is not None:
        values["lr_rule"] = _rules_for_whole_batch(values["lr_rule"])
    alone = values["strategy"] == ["single"]
    workers_list = values.pop("workers") or [1 if alone else Experiment.workers]
    strategies = values.pop("strategy")
    experiments: dict[Experiment, None] = {}
    for workers, strategy in itertools.product(workers_list, strategies):
        facts = STRATEGIES[strategy]
        chosen = dict(values)
        chosen["passes"] = (values["passes"] or [1]) if facts.has_passes else None
        chosen["schedule"] = (values["schedule"] or ["ring"]) if facts.has_passes else None
        if facts.exchanges or alone:
            chosen["local_steps"] = values["local_steps"] or [facts.local_steps]
        else:
            chosen |= dict.fromkeys((*EXCHANGE_OPTIONS, *CLUSTER_OF_SEVERAL))
        names = [name for name, listed in chosen.items() if listed is not None]
        for combination in itertools.product(*(chosen[name] for name in names)):
            options = given.take(dict(zip(names, combination, strict=True)))
            count = workers if facts.exchanges or alone else 1
            if whole_batch is not None:
                options["batch_size"] = _share(whole_batch, count)
            experiment = Experiment(workers=count, strategy=strategy, engine=engine, **options)
            experiments[experiment] = None
    return list(experiments)


def _rules_for_whole_batch(rules: list[str] | None) -> list[str]:
    """The batch of an update is the same whatever the number of workers, and so is its rate."""
    grows = [rule for rule in rules or () if rule in ("linear", "sqrt")]
    if grows:
        raise SpecError(
            f"lr_rule {grows[0]} does not go with global_batch_size, where more workers make no larger batch;"
            " use --batch-size, or --lr"
        )
    return ["none" if rule == "auto" else rule for rule in rules or ["auto"]]


def _whole_batch(args: argparse.Namespace) -> int | None:
    if args.global_batch_size is None:
        return None
    if args.batch_size is not None:
        raise SpecError("batch_size is per worker, global_batch_size for all together: give one")
    return int(_number("global_batch_size", args.global_batch_size, int))


def _share(whole_batch: int, workers: int) -> int:
    """As courses have it: 256 samples are 85 for each of 3 workers."""
    if whole_batch < workers:
        raise SpecError(f"global_batch_size {whole_batch} is not enough for {workers} workers")
    return whole_batch // workers


def _neighbours(experiments: list[Experiment]) -> list[Experiment]:
    """Runs that fit one cluster side by side, so that it is raised once; else in the order given."""
    clusters: dict[object, list[Experiment]] = {}
    for experiment in experiments:
        clusters.setdefault(experiment.cluster, []).append(experiment)
    return [experiment for group in clusters.values() for experiment in group]


def _describe_choices() -> str:
    strategies = {name: facts.summary for name, facts in STRATEGIES.items()}
    models = {name: f"{m.summary}; {m.parameters:,} parameters" for name, m in MODELS.items()}
    datasets = {name: facts.summary for name, facts in DATASETS.items()}
    workloads = {
        name: ", ".join(
            f"{option.replace('_', '-')} {' or, where out of reach, '.join(v) if isinstance(v, tuple) else option_text(v)}"
            for option, v in options.items()
        )
        for name, options in WORKLOADS.items()
    }
    tables = {
        "strategies": strategies,
        "schedules": SCHEDULES,
        "models": models,
        "datasets": datasets,
        "workloads": workloads,
        "optimizers": OPTIMIZERS,
        "learning-rate rules": LR_RULES,
    }
    lines = []
    for title, choices in tables.items():
        lines += [f"{title}:", *(f"  {name:<18}{text}" for name, text in choices.items()), ""]
    return "\n".join(lines) + "\n"


def _values(field: dataclasses.Field[Any], text: Any) -> list[Any] | None:
    """The value list that was typed, or None for the default."""
    if text is None:
        return None
    if field.name in WITH_NONE:
        cases = text if isinstance(text, list) else text.split(",")
        return list(dict.fromkeys(None if case == NONE else case.strip() for case in cases))
    kind = _kind(field)
    values = [_number(field.name, part.strip(), kind) for part in text.split(",")]
    if len(values) > 1 and field.name in SINGLE_VALUED:
        raise SpecError(f"{field.name} takes one value, not {text!r}")
    return list(dict.fromkeys(values))


def _kind(field: dataclasses.Field[Any]) -> type:
    hint = typing.get_type_hints(Experiment)[field.name]
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    assert isinstance(hint, type)
    return hint


def _number(name: str, text: str, kind: type) -> Any:
    try:
        return YES_NO[text] if kind is bool else kind(text)
    except (KeyError, ValueError):
        expected = {bool: "yes or no", int: "a whole number"}.get(kind, "a number")
        raise SpecError(f"{name} must be {expected}, not {text!r}") from None


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _help(field: dataclasses.Field[Any]) -> str:
    text = str(field.metadata["help"])
    if field.name in LISTS:
        text += f": {', '.join(LISTS[field.name])}"
    default = {
        "overlap": "no",
        "timeline": "no",
        "augment": "no",
        "engine": "auto: Docker where an engine answers, else namespaces",
        "strategy": "pairwise with --passes, else allreduce",
        "schedule": None,
        "passes": "1 for pairwise",
    }.get(field.name, field.default)
    if default is not None and "default" not in text:
        text += f" (default: {default})"
    return text.replace("%", "%%")
