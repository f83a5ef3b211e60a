"""The flags of ./measure.sh and their help, made from the fields of Experiment."""

import argparse
import dataclasses
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from cluster import environment, presets
from cluster.engine import AUTO, engine_names
from cluster.observe.units import option_text
from cluster.spec.catalogue import DATASETS, MODELS, WORKLOADS
from cluster.spec.command_line import Parser, argument, parse_path, parse_port
from cluster.spec.documents.field_docs import field_docs
from cluster.spec.errors import FileError, SpecError
from cluster.spec.exchange.algorithms import ALGORITHMS, Algorithm
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.experiment import Experiment
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.options import LR_RULES, OPTIMIZERS
from cluster.spec.program import plain_words
from cluster.spec.schedules.consensus import SCHEDULE_CHOICES
from cluster.sweep.preset_file import option_type

GROUPS = {
    "strategy": "what is compared",
    "cluster": "the cluster",
    "training": "the training",
    "faults": "faults of nodes",
    "program": "a program of your own",
    "output": "output",
}
MOST_USED = (
    *("workers", "strategy", "passes", "local_steps", "link"),
    *("bottleneck", "workload", "epochs", "repeat", "preset"),
)
DEFAULTS = {
    "engine": f"{AUTO}: Docker where an engine answers, else namespaces",
    "strategy": "pairwise with --passes, else allreduce",
}
"""Where the help says something other than the field's default."""
EXAMPLES = """\
examples:
  ./measure.sh --workers 6 --passes 2          groups of three average their parameters
  ./measure.sh --workers 2,4,8                 a sweep: one all-reduce run for each size
  ./measure.sh --workers 4 --strategy allreduce,gather-scatter,pairwise --link 100mbit
  ./measure.sh --workers 4 --bottleneck none --bottleneck 2:20mbit
  ./measure.sh --preset frugal                 a tenth of all-reduce's bytes, on iid shards
"""
NOTES = """\
Most options take a comma-separated list; the runs are all combinations, at most 999, and runs on
equal nodes share a cluster. Progress and the table go to standard error; a sweep goes on where
nobody reads them. Exit code: 0 all runs completed, 1 a run failed or the report could not be
written, 2 a mistake in the flags, 130 Ctrl-C, 143 SIGTERM.
"""

OTHER_FLAGS = {
    "cluster": {
        "--spark-master URL": "run on an existing Spark cluster, with --launcher spark:"
        " spark://HOST:7077, yarn, k8s://... or local-cluster[N,CORES,MB]; its workers need the"
        " same Python, torch and Horovod as this machine",
        "--ray-address HOST:PORT": "of --launcher ray: the head of the Ray cluster, of which this"
        " machine is a host (default: the cluster that this machine belongs to)",
        "--slurm-partition NAME": "of --launcher slurm: the partition (default: Slurm's own)",
        "--slurm-account NAME": "of --launcher slurm: the account that the job is charged to",
        "--slurm-time LIMIT": "of --launcher slurm: the job's time limit, as sbatch takes it: 30,"
        " 1:30:00",
        "--image IMAGE": "run workers in a container: with --launcher slurm apptainer:FILE.sif or"
        " pyxis:IMAGE, with --for kubernetes an image of your registry",
        "--host-python PATH": "of --launcher slurm: Python with torch on the hosts (default: this"
        " one's path)",
        "--patience TIME": "how long to wait for hosts: in Slurm's queue (default: 600s), or for"
        " free slots of Spark and Ray (60s)",
    },
    "strategy": {
        "--preset NAME": "a published or recommended set of runs (below), or a file of your own,"
        " FILE.toml; flags beside it go for all of them",
        "--quick": "the preset's quick variant, where it has one (below): ends within ten minutes"
        " on two cores",
    },
    "training": {
        "--workload NAME": "a model, its data and how it is usually trained; flags beside it"
        f" replace its options: {', '.join(WORKLOADS)}",
        "--global-batch-size SAMPLES": "samples per step of all workers together, instead of"
        " --batch-size: strong scaling",
        "--repeat K": "repeat every run with K seeds: SEED, SEED+1, ... (default: 1)",
        "--data-dir FOLDER": "folder that holds the data set's files (default: a cache, filled on"
        " first use)",
    },
    "output": {
        "--output FOLDER": "where run folders go (default: runs)",
        "--dry-run": "list the runs and the time they take, and exit",
        "--resume FOLDER": "finish an interrupted or killed session, such as runs/SESSION: its"
        " completed runs are kept, all others are run anew",
        "--continue FOLDER": "train on where a run ended that was made with --save-state, such as"
        " runs/SESSION/RUN, for --epochs more: a run of its own, bit for bit the rest of a longer"
        " one",
        "--prepare FOLDER": "train nothing: write the run's folder and print the commands for your"
        " own hosts (torchrun), or with --launcher slurm a batch script of all runs",
        "--for WHAT": "of --prepare: torchrun (default), or kubernetes, for which it writes"
        " manifests",
        "--live [PORT]": "show the session in a browser while it runs: a page on this machine's"
        " loopback, whose address is printed (default: a free port)",
        "--quiet": "no progress, only the table",
        "--json": "print the summaries as a JSON array on standard output",
        "--no-report": "write no report of the session: two seconds less",
        "--doctor": "print what this machine can do and exit",
        "--clean": "remove what killed measures left behind (processes, containers, networks,"
        " control groups, temporary files) and node images older than a day that this version does"
        " not build, and exit",
    },
}
"""Flags that are no option of one run: group -> flag and its value's unit -> help."""


TYPES = {"FOLDER": argument(parse_path), "[PORT]": argument(parse_port)}
"""Of the values above, where they are not just text."""


def make_parser(with_help: bool = False) -> Parser:
    """Help is read from the source of Experiment, which only --help needs."""
    parser = Parser(
        prog="./measure.sh",
        speaker="measure",
        usage="./measure.sh [OPTION ...] [-- train.py ARGS]",
        description="Train on a cluster of N real nodes on this machine and count every byte:\n"
        "measured traffic, predicted traffic and accuracy, in one table and one report.",
        allow_abbrev=False,
        add_help=False,
    )
    groups = {name: parser.add_argument_group(title) for name, title in GROUPS.items()}
    docs = field_docs(Experiment) if with_help else {}
    for field in dataclasses.fields(Experiment):
        if not field.metadata["group"]:
            continue
        group = groups[field.metadata["group"]]
        text = _help(field, docs[field.name]) if with_help else None
        unit = field.metadata["unit"]
        group.add_argument(_flag(field.name), metavar=unit, help=text, **_arity(field.name))
    for group_name, flags in OTHER_FLAGS.items():
        for form, text in flags.items():
            flag, _, unit = form.partition(" ")
            value: dict[str, Any] = {"metavar": unit, "type": TYPES.get(unit, str)}
            if unit.startswith("["):  # the value may be left out
                value |= {"metavar": unit.strip("[]"), "nargs": "?", "const": 0}
            groups[group_name].add_argument(
                flag, help=text, **(value if unit else {"action": "store_true"})
            )
    parser.set_defaults(output=Path("runs"))
    for flag, texts, description in (
        ("--help", help_texts, "show the most used options and exit"),
        ("--help-all", all_help_texts, "show all options, strategies, models and presets and exit"),
        (
            "--version",
            lambda _: [f"gradwire {environment.version()}\n"],
            "show the version and exit",
        ),
    ):
        short = ["-h"] if flag == "--help" else []
        groups["output"].add_argument(*short, flag, action=_Print, texts=texts, help=description)
    return parser


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The flags; what follows `--` is a program of the user's own."""
    if "--" not in arguments:
        return _with_virtual_workers(make_parser().parse_args(arguments))
    at = list(arguments).index("--")
    args = make_parser().parse_args(arguments[:at])
    if args.program is not None:
        raise SpecError("program is given twice: by --program and after --; leave one out")
    args.program = [shlex.join(plain_words(arguments[at + 1 :]))]
    return args


def _with_virtual_workers(args: argparse.Namespace) -> argparse.Namespace:
    """--virtual N is --virtual --workers N."""
    count = args.virtual
    if count is None or count in ("yes", "no"):
        return args
    if not re.fullmatch(r"[\d,\s]+", count):
        raise SpecError(f"virtual takes the number of workers, or a list of them, not {count!r}")
    if args.workers is not None:
        raise SpecError(
            f"virtual {count} says how many workers there are, and so does --workers"
            f" {args.workers}: leave out one number"
        )
    args.virtual, args.workers = "yes", count
    return args


def as_typed(error: SpecError) -> str:
    """A refusal with its options as they are typed: --total-memory, not total_memory.

    Those of a file stay as they are there. A name without an underscore may be a plain word,
    except where a refusal begins with it.
    """
    if isinstance(error, FileError):
        return str(error)
    names = [action.dest for action in make_parser()._actions]
    begins = rf"^({'|'.join(names)})(?=[ :])"
    inside = rf"(?<![\w'-])({'|'.join(name for name in names if '_' in name)})(?!\w)"
    return re.sub(f"{begins}|{inside}", lambda found: _flag(found[0]), str(error))


class _Print(argparse.Action):
    """A flag that prints and exits."""

    def __init__(self, *, texts: Callable[[Parser], Iterable[str]], **options: Any) -> None:
        super().__init__(nargs=0, default=argparse.SUPPRESS, **options)
        self._texts = texts

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser._print_message("\n".join(self._texts(make_parser(with_help=True))), sys.stdout)
        parser.exit()


def help_texts(parser: Parser) -> Sequence[str]:
    """The short help: five examples, the ten most used options, the presets."""
    formatter = argparse.HelpFormatter(parser.prog)
    formatter.start_section("most used options")
    formatter.add_arguments([parser.action_of(_flag(name)) for name in MOST_USED])
    formatter.end_section()
    more = "  --help-all      all options, strategies, models, data sets and workloads\n"
    more += "  --doctor        what this machine can do\n"
    more += "  --clean         remove what killed measures left behind\n"
    return (
        f"usage: {parser.usage}\n",
        f"{parser.description}\n",
        EXAMPLES,
        formatter.format_help(),
        _table("presets (--preset NAME; [--quick]: has a quick variant)", _presets()),
        f"more:\n{more}",
        NOTES,
    )


def all_help_texts(parser: Parser) -> Sequence[str]:
    """Every option in its group, then what each name stands for."""
    models = {name: f"{m.summary}; {m.parameters:,} parameters" for name, m in MODELS.items()}
    tables = {
        "strategies": {name: facts.summary for name, facts in STRATEGIES.items()},
        "algorithms": {name: _algorithm(found) for name, found in ALGORITHMS.items()},
        "schedules": SCHEDULE_CHOICES,
        "launchers": {name: launcher.summary for name, launcher in LAUNCHERS.items()},
        "models": models,
        "data sets": {
            name: f"{facts.summary}; {facts.classes} classes" if facts.classes else facts.summary
            for name, facts in DATASETS.items()
        },
        "workloads": {name: _workload(options) for name, options in WORKLOADS.items()},
        "optimizers": OPTIMIZERS,
        "learning-rate rules": LR_RULES,
        "presets ([--quick]: has a quick variant)": _presets(),
    }
    names = (_table(title, choices) for title, choices in tables.items())
    return parser.format_help(), *names, EXAMPLES, NOTES


def _arity(name: str) -> dict[str, Any]:
    """How many values a flag takes: --overlap and --gpu alone mean yes and 1."""
    if name in presets.REPEATED:
        return {"action": "append"}
    if name == "gpu":
        return {"nargs": "?", "const": "1"}
    return {"nargs": "?", "const": "yes"} if option_type(name) is bool else {}


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _help(field: dataclasses.Field[Any], text: str) -> str:
    """The field's docstring, the names it takes, and its default."""
    lists = {"engine": engine_names(), "strategy": list(STRATEGIES)}
    if names := lists.get(field.name, field.metadata["choices"]):
        meaning, default_begins, rest = text.partition(" (default")
        text = f"{meaning}: {', '.join(names)}{default_begins}{rest}"
    default = DEFAULTS.get(field.name, field.default)
    if default is not None and "default" not in text:
        text += f" (default: {option_text(default)})"
    return text.replace("%", "%%")


def _presets() -> dict[str, str]:
    """Each preset's title, and whether it has a quick variant."""
    return {
        name: presets.title(name) + (" [--quick]" if presets.has_quick(name) else "")
        for name in presets.names()
    }


def _algorithm(found: Algorithm) -> str:
    flags = (f"--{option.replace('_', '-')} {value}" for option, value in found.options.items())
    return f"{found.summary}: {' '.join(flags)}"


def _workload(options: dict[str, Any]) -> str:
    texts = {
        name: " or, where out of reach, ".join(value)
        if isinstance(value, tuple)
        else option_text(value)
        for name, value in options.items()
    }
    return ", ".join(f"{name.replace('_', '-')} {text}" for name, text in texts.items())


def _table(title: str, rows: dict[str, str]) -> str:
    lines = (
        textwrap.fill(
            f"  {name:<20}{text}", 110, subsequent_indent=" " * 22, break_on_hyphens=False
        )
        for name, text in rows.items()
    )
    return "\n".join([f"{title}:", *lines]) + "\n"
