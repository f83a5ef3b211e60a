"""Flags, presets and workloads -> settled Experiments, each made and checked once.

args --presets.expand--> flags of each run --value_lists--> option -> values
     --combinations--> options of one run --Experiment--> checked, defaults filled in
     --settle--> with the engine, schedule and time dilation that the host has chosen
"""

import argparse
import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from cluster import own_files, presets
from cluster.engine import ENGINES
from cluster.host import user_folders
from cluster.spec.catalogue import data_facts
from cluster.spec.dilation import AUTO
from cluster.spec.errors import FileError, SpecError, between
from cluster.spec.exchange.strategies import EXCHANGE_OPTIONS, OF_FEW, facts_of
from cluster.spec.experiment import Experiment
from cluster.spec.experiment_checks import check_value, no_such_option
from cluster.spec.links import NONE
from cluster.spec.options import OFF, ineffective_options
from cluster.spec.quantities import meant
from cluster.spec.schedules.consensus import choose_schedule
from cluster.sweep import sites_file, trace_files
from cluster.sweep.dilation import Dilations
from cluster.sweep.preset_file import FIELDS, option_type

YES_NO = {"yes": True, "no": False}
MOST_RUNS = 999
SINGLE_VALUED = ("interval", "seed")
CLUSTER_OF_SEVERAL = (
    *("link", "bottleneck", "sites", "between", "inside", "link_trace", "background"),
    *("straggler", "fault", "storm"),
)
"""Options that a baseline of one worker among other strategies goes without."""
WHOLE = ("program", "folder", "requirements")
"""Options whose values may hold commas."""
WITH_NONE = (*CLUSTER_OF_SEVERAL, "total_memory")
"""Options in which `none` stands for no limit, also beside a preset that has one."""

Options = dict[str, Any]
Values = dict[str, list[Any]]
"""Option -> the values it takes in a sweep; what is absent has its default."""


def make_experiments(
    args: argparse.Namespace,
    choose: presets.Choose = presets.take_last,
    say: Callable[[str], None] = lambda text: None,
) -> list[Experiment]:
    """All requested runs; those that fit one cluster are neighbours."""
    for field in dataclasses.fields(Experiment):  # a flag's own mistake is not a preset's
        if field.name in FIELDS and (text := getattr(args, field.name)) is not None:
            _values(field, text)
    sweeps: list[tuple[Values, str]] = []
    for flags in presets.expand(args, choose):
        with _told_with(flags.origin):
            sweeps.append((value_lists(flags), flags.origin))
    count = sum(count_combinations(values) for values, _ in sweeps)
    if count > MOST_RUNS:
        raise SpecError(f"that makes {count:,} runs; a session has at most {MOST_RUNS}")
    effects, whole_groups = Effects(), dict[str, None]()
    runs: dict[Experiment, bool] = {}
    for values, origin in sweeps:
        with _told_with(origin):
            for options in combinations(values):
                options = _within_workers(options, whole_groups)
                options = trace_files.read_into(sites_file.read_into(options))
                options = own_files.locate(user_folders.locate(options))
                runs[Experiment(**effects.keep(options))] = "dilation" in options
    effects.check(typed={name for name, value in vars(args).items() if value is not None})
    for line in (*presets.announcement(args), *whole_groups):
        say(line)
    for experiment in runs:
        available = data_facts(experiment.dataset).train_size
        if experiment.train_size > available:
            raise SpecError(
                f"train_size {experiment.train_size:,} is more than the {available:,} training"
                f" samples of {experiment.dataset}"
            )
    return _neighbours(_dilated_alike(runs))


def _dilated_alike(runs: Mapping[Experiment, bool]) -> Iterator[Experiment]:
    """Runs of a session are compared: where one is dilated by default, so are the others.

    The values say whether a run's dilation was given.
    """
    by_default = any(run.dilation == AUTO and not given for run, given in runs.items())
    for run, given in runs.items():
        alike = by_default and not given and run.can_be_dilated
        yield dataclasses.replace(run, dilation=AUTO) if alike else run


@contextlib.contextmanager
def _told_with(origin: str) -> Iterator[None]:
    """A mistake in a preset's run is told with its file and line."""
    try:
        yield
    except FileError:
        raise
    except SpecError as error:
        if not origin:
            raise
        raise FileError(f"{origin}: {error}") from None


def _within_workers(options: Options, notes: dict[str, None]) -> Options:
    """Passes beyond all workers are those of all workers: stored and shown as what they are."""
    passes, most = options.get("passes"), max(1, options["workers"] - 1)
    if passes is None or passes <= most:
        return options
    notes[
        f"passes {passes} with {options['workers']} workers is passes {most}: all workers average"
        " with each other, as in an all-reduce"
    ] = None
    return {**options, "passes": most}


def settle(
    experiments: Iterable[Experiment], engine: str, say: Callable[[str], None]
) -> list[Experiment]:
    """With this engine, and with a schedule and a dilation in place of `auto`."""
    dilations = Dilations(ENGINES[engine].load().limited_cores, say)

    @functools.cache
    def chosen(workers: int, passes: int, seed: int) -> str:
        choice = choose_schedule(workers, passes, seed)
        say(f"schedule for {workers} workers, passes {passes}: {choice.schedule} ({choice.why})")
        return choice.schedule

    def schedule_of(run: Experiment) -> str | None:
        if run.schedule != "auto" or run.passes is None:
            return run.schedule
        return chosen(run.workers, run.passes, run.seed)

    return [run.settled(engine, schedule_of(run), dilations.of(run)) for run in experiments]


@dataclasses.dataclass
class Effects:
    """Which of the given options have an effect in some run of the session, and which in none."""

    effective: set[str] = dataclasses.field(default_factory=set)
    ineffective: dict[str, str] = dataclasses.field(default_factory=dict)
    """Option -> why it had no effect in a run."""

    def keep(self, options: Options) -> Options:
        """Without those that have no effect in this run."""
        model = options.get("model", Experiment.model)
        found = ineffective_options(model, options.get("optimizer", Experiment.optimizer))
        given = {name for name, value in options.items() if value != OFF.get(name, ...)}
        self.ineffective |= {name: why for name, why in found.items() if name in given}
        kept = {name: value for name, value in options.items() if name not in found}
        self.effective |= kept.keys()
        return kept

    def check(self, typed: set[str]) -> None:
        """Refuse a typed option without any effect; a preset's or workload's own is dropped."""
        for name, reason in self.ineffective.items():
            if name in typed and name not in self.effective:
                raise SpecError(f"{name} does not apply to {reason}")


def value_lists(flags: argparse.Namespace) -> Values:
    """What was typed as values, seeds counted up; SpecError for what is none."""
    values: Values = {}
    for field in dataclasses.fields(Experiment):
        if field.name in FIELDS and (text := getattr(flags, field.name)) is not None:
            values[field.name] = _values(field, text)
    repeat = _number("repeat", flags.repeat, int) if flags.repeat is not None else 1
    between("repeat", repeat, 1, MOST_RUNS)
    first_seed = values.get("seed", [Experiment.seed])[0]
    values["seed"] = [first_seed + k for k in range(repeat)]
    if "program" in values and "strategy" in values:
        raise SpecError(
            "strategy does not go with a program: for both in one report, put them into a sweep"
            " file (docs/sweeps.md)"
        )
    values.setdefault("strategy", ["pairwise" if "passes" in values else Experiment.strategy])
    _check_strategies(values)
    if flags.global_batch_size is not None:
        if "batch_size" in values:
            raise SpecError(
                "batch_size is per worker, global_batch_size for all together: give one"
            )
        total = _number("global_batch_size", flags.global_batch_size, int)
        between("global_batch_size", total, 1, 10**9)
        values["global_batch_size"] = [total]
        values["lr_rule"] = _rules_for_global_batch(values.get("lr_rule", ["auto"]))
    return values


def count_combinations(values: Values) -> int:
    """How many runs combinations() gives, but for equal ones; none is made."""
    alone = values["strategy"] == ["single"]
    workers = len(values.get("workers", [1]))
    count = 0
    for strategy in values["strategy"]:
        sizes = map(len, _options_of(strategy, values, alone).values())
        count += math.prod(sizes) * (workers if alone or facts_of(strategy).exchanges else 1)
    return count


def combinations(values: Values) -> Iterator[Options]:
    """The options of every run: workers vary slowest, then strategies, then the other options."""
    alone = values["strategy"] == ["single"]
    workers = values.get("workers", [1 if alone else Experiment.workers])
    for count, strategy in itertools.product(workers, values["strategy"]):
        others = _options_of(strategy, values, alone)
        count = count if alone or facts_of(strategy).exchanges else 1
        for combination in itertools.product(*others.values()):
            options = dict(zip(others, combination, strict=True))
            if (total := options.pop("global_batch_size", None)) is not None:
                options["batch_size"] = _share(total, count)
            yield {"workers": count, "strategy": strategy, **options}


def _options_of(strategy: str, values: Values, alone: bool) -> Values:
    """The options that a strategy takes of a sweep, in the order of Experiment's fields."""
    facts = facts_of(strategy)
    left_out = {"workers", "strategy"}
    left_out |= OF_FEW.keys() - set(facts.own_options)
    if not facts.exchanges and not alone:  # a baseline in a list of strategies
        left_out |= {*EXCHANGE_OPTIONS, *CLUSTER_OF_SEVERAL}
    order = [*(field.name for field in dataclasses.fields(Experiment)), "global_batch_size"]
    return {name: values[name] for name in order if name in values and name not in left_out}


def _check_strategies(values: Values) -> None:
    strategies = values["strategy"]
    for option in OF_FEW:
        if option in values and not any(
            option in facts_of(name).own_options for name in strategies
        ):
            raise SpecError(no_such_option(option, ", ".join(strategies)))


def _rules_for_global_batch(rules: Sequence[str]) -> list[str]:
    """More workers make no larger global batch, so the learning rate is not scaled."""
    for rule in rules:
        if rule in ("linear", "sqrt"):
            raise SpecError(
                f"lr_rule {rule} does not go with global_batch_size, where more workers make no"
                " larger batch; use --batch-size, or --lr"
            )
    return ["none" if rule == "auto" else rule for rule in rules]


def _share(global_batch: int, workers: int) -> int:
    """Rounded down, as in courses: 256 samples are 85 for each of 3 workers."""
    if global_batch < workers:
        raise SpecError(f"global_batch_size {global_batch} is not enough for {workers} workers")
    return global_batch // workers


def _neighbours(experiments: Iterable[Experiment]) -> list[Experiment]:
    """Runs that fit one cluster side by side, so that it starts once; else in the given order."""
    clusters: dict[object, list[Experiment]] = {}
    for experiment in experiments:
        clusters.setdefault(experiment.cluster, []).append(experiment)
    return [experiment for group in clusters.values() for experiment in group]


def _values(field: dataclasses.Field[Any], text: Any) -> list[Any]:
    """A comma-separated list as values, each once; of a repeated flag, the list of its texts."""
    name = field.name
    if name in WHOLE:
        return list(dict.fromkeys(text if isinstance(text, list) else [text]))
    if name in WITH_NONE:
        cases = text if isinstance(text, list) else text.split(",")
        return list(dict.fromkeys(None if case == NONE else case.strip() for case in cases))
    values = [_number(name, part.strip(), option_type(name)) for part in text.split(",")]
    if len(values) > 1 and name in SINGLE_VALUED:
        raise SpecError(f"{name} takes one value, not {text!r}")
    for value in values:
        check_value(field, value)
    return list(dict.fromkeys(values))


def _number(name: str, text: str, kind: type) -> Any:
    try:
        return YES_NO[text] if kind is bool else kind(text)
    except (KeyError, ValueError):
        expected = {bool: "yes or no", int: "a whole number"}.get(kind, "a number")
        raise SpecError(f"{name} must be {expected}, not {text!r}{meant(text)}") from None
