"""Experiment: every knob of one run, with its unit and its check. Standard library only.

Command line flags, spec.json and the worker's settings are all made from this one table of fields.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, get_args, get_type_hints

SCHEMA = 1
MAX_WORKERS = 256

ENGINES = ("docker", "netns")
COMPRESSIONS = ("none", "fp16", "bf16")
LAUNCHERS = ("torch",)
DATASETS = ("mnist",)
MODELS = ("mnist-cnn",)
SCHEDULES = {
    "ring": "consecutive neighbours, shifted by one place each round",
    "random": "a seeded shuffle cut into groups",
    "exponential": "pairs at distance 1, 2, 4, ...; exact after log2 N rounds if N is a power of two",
    "grid": "rows, then columns, of a grid of the workers; exact after one cycle where N factors",
    "auto": "the one that reaches consensus for the fewest bytes; says which and why",
}


@dataclass(frozen=True)
class StrategyFacts:
    """What the command line must know of a strategy without importing torch."""

    summary: str
    has_passes: bool = False
    exchanges: bool = True
    local_steps: int = 1
    """The default of --local-steps."""


STRATEGIES: dict[str, StrategyFacts] = {
    "single": StrategyFacts("one worker, no exchange: the baseline", exchanges=False),
    "allreduce": StrategyFacts("ring all-reduce of the gradients"),
    "ring": StrategyFacts("the same ring written out with send and receive, for teaching"),
    "allgather": StrategyFacts("everyone gets every gradient and averages for itself"),
    "gather-scatter": StrategyFacts("gather to a root, average there, send the mean back"),
    "reduce-broadcast": StrategyFacts("add up a tree to a root, send the mean down the tree"),
    "pairwise": StrategyFacts(
        "groups of passes+1 neighbours average their parameters after a local update",
        has_passes=True,
    ),
    "local-sgd": StrategyFacts("all-reduce of the parameters every few local steps", local_steps=8),
}


class SpecError(ValueError):
    """A person's mistake in an experiment; the message is one line and names the field."""


def _knob(default: Any, group: str, help: str, unit: str = "") -> Any:
    return field(default=default, metadata={"group": group, "help": help, "unit": unit})


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One run. Frozen and complete: what is not said is a default, and defaults are stored too."""

    strategy: str = _knob("allreduce", "strategy", "how workers combine what they learned", "NAME")
    workers: int = _knob(4, "cluster", "number of nodes, one worker each", "N")
    passes: int | None = _knob(
        None,
        "strategy",
        "hops an update travels round the ring before it is averaged: groups of P+1 workers"
        " (only pairwise has passes; 1 = pairs)",
        "P",
    )
    schedule: str | None = _knob(
        None,
        "strategy",
        "who meets whom in a round of pairwise (default: ring; auto chooses by consensus per byte)",
        "NAME",
    )
    local_steps: int = _knob(
        1,
        "strategy",
        "steps between two exchanges: gradients are accumulated, parameters trained on locally"
        " (default: 1; 8 for local-sgd)",
        "H",
    )
    compress: str = _knob(
        "none", "strategy", "how numbers are made smaller before they are sent", "NAME"
    )
    epochs: int = _knob(12, "training", "times every worker goes through its shard", "E")
    train_size: int = _knob(6000, "training", "training images, all workers together", "IMAGES")
    batch_size: int = _knob(64, "training", "images per step and worker", "IMAGES")
    lr: float = _knob(0.05, "training", "learning rate of SGD", "RATE")
    momentum: float = _knob(0.5, "training", "momentum of SGD, 0 to below 1", "M")
    seed: int = _knob(1, "training", "seed of weights, shuffles and random schedules", "SEED")
    engine: str = _knob("netns", "cluster", "what the nodes are made of", "NAME")
    cpus: float | None = _knob(
        None, "cluster", "CPU cores each node may use at most (default: no limit)", "CORES"
    )
    interval: float = _knob(
        1.0,
        "cluster",
        "seconds between readings of the Docker API; kernel counters are read ten times as often",
        "SECONDS",
    )
    dataset: str = "mnist"
    model: str = "mnist-cnn"
    launcher: str = "torch"

    def __post_init__(self) -> None:
        for name in _kinds():
            _typed(name, getattr(self, name))
        _one_of("dataset", self.dataset, DATASETS)
        _one_of("model", self.model, MODELS)
        _one_of("launcher", self.launcher, LAUNCHERS)
        _one_of("strategy", self.strategy, STRATEGIES)
        _one_of("engine", self.engine, ENGINES)
        _one_of("compress", self.compress, COMPRESSIONS)
        if self.schedule is not None:
            _one_of("schedule", self.schedule, SCHEDULES)
        _between("workers", self.workers, 1, MAX_WORKERS)
        _between("epochs", self.epochs, 1, 100_000)
        _between("local_steps", self.local_steps, 1, 100_000)
        _between("train_size", self.train_size, 1, 10**9)
        _between("batch_size", self.batch_size, 1, 10**9)
        _between("seed", self.seed, 0, 2**31 - 1)
        _between("interval", self.interval, 0.1, 3600)
        _between("lr", self.lr, 1e-9, 1000)
        if not 0 <= self.momentum < 1:
            raise SpecError(f"momentum must be at least 0 and below 1, not {self.momentum:g}")
        if self.cpus is not None:
            _between("cpus", self.cpus, 0.01, 1024)
        self._check_strategy()
        if self.steps_per_epoch < 1:
            raise SpecError(
                f"batch_size {self.batch_size} is larger than a worker's shard: train_size"
                f" {self.train_size} over {self.workers} workers is"
                f" {self.train_size // self.workers} images; lower --batch-size or raise"
                " --train-size"
            )

    def _check_strategy(self) -> None:
        facts = STRATEGIES[self.strategy]
        if not facts.exchanges and self.workers != 1:
            raise SpecError(
                f"strategy {self.strategy} has one worker, not {self.workers}: use --workers 1"
            )
        for name, value in (
            ("local_steps", self.local_steps != 1),
            ("compress", self.compress != "none"),
        ):
            if value and not facts.exchanges:
                raise SpecError(
                    f"{name} does not apply to strategy {self.strategy}, which exchanges nothing"
                )
        if not facts.has_passes:
            for name in ("passes", "schedule"):
                if getattr(self, name) is not None:
                    raise SpecError(
                        f"{name} does not apply to strategy {self.strategy}; it applies to:"
                        f" {', '.join(strategies_with_passes())}"
                    )
            return
        if self.passes is None:
            raise SpecError(f"strategy {self.strategy} needs passes, 1 or more")
        _between("passes", self.passes, 1, MAX_WORKERS)
        if self.schedule is None:
            raise SpecError(f"strategy {self.strategy} needs a schedule: {', '.join(SCHEDULES)}")
        if self.schedule == "exponential" and 1 < self.passes < self.workers - 1:
            raise SpecError(
                f"schedule exponential makes pairs, so passes must be 1, not {self.passes};"
                " use schedule grid for larger groups"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in the smallest shard: every worker makes the same number of steps."""
        return self.train_size // self.workers // self.batch_size

    @property
    def rounds(self) -> int:
        """Exchanges in the whole run."""
        return self.rounds_per_epoch * self.epochs

    @property
    def rounds_per_epoch(self) -> int:
        """One every local_steps, and one for an incomplete rest at the end of the epoch."""
        if not STRATEGIES[self.strategy].exchanges:
            return 0
        return -(-self.steps_per_epoch // self.local_steps)

    @property
    def cluster(self) -> tuple[object, ...]:
        """What a run asks of its nodes; runs that ask for the same can share them."""
        return (self.workers, self.cpus)

    @property
    def label(self) -> str:
        """Short, for folder names, where a number makes it unique."""
        parts = [self.strategy, f"n{self.workers}"]
        if self.passes is not None:
            parts += [f"p{self.passes}", str(self.schedule)]
        if self.local_steps > 1:
            parts.append(f"h{self.local_steps}")
        if self.compress != "none":
            parts.append(self.compress)
        return "-".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Experiment:
        """The inverse of to_json; refuses what it does not know rather than dropping it."""
        values = dict(document)
        schema = values.pop("schema", None)
        if schema != SCHEMA:
            raise SpecError(f"schema of the spec must be {SCHEMA}, not {schema!r}")
        unknown = sorted(set(values) - {f.name for f in dataclasses.fields(cls)})
        if unknown:
            raise SpecError(f"unknown field in the spec: {', '.join(unknown)}")
        return cls(**values)


def strategies_with_passes() -> list[str]:
    return [name for name, facts in STRATEGIES.items() if facts.has_passes]


def _one_of(name: str, value: str, choices: Any) -> None:
    if value not in choices:
        raise SpecError(f"unknown {name} {value!r}; there is: {', '.join(choices)}")


def _typed(name: str, value: Any) -> None:
    """Also for a spec.json that was edited by hand: a text is no number, and true is no 1."""
    kinds = _kinds()[name]
    if type(value) not in kinds:
        wanted = " or ".join("null" if kind is NoneType else kind.__name__ for kind in kinds)
        raise SpecError(f"{name} must be of type {wanted}, not {value!r}")


@functools.cache
def _kinds() -> dict[str, tuple[type, ...]]:
    """Field -> the types it may have; a whole number will do for a float."""
    kinds = {}
    for name, hint in get_type_hints(Experiment).items():
        allowed = get_args(hint) or (hint,)
        kinds[name] = (*allowed, int) if float in allowed else allowed
    return kinds


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # false for NaN too
        raise SpecError(f"{name} must be between {low:,} and {high:,}, not {value:,}")
