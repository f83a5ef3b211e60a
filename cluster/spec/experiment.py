"""Experiment: every option of one run, with its unit and its check. Standard library only.

Command line flags, spec.json and the worker's settings are all made from this one table of fields.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, get_args, get_type_hints

from cluster.spec import catalogue, synthetic
from cluster.spec.catalogue import DATASETS, MODELS
from cluster.spec.documents import schema1
from cluster.spec.documents.codec import SCHEMA
from cluster.spec.errors import SpecError, between, one_of
from cluster.spec.ineffective import WITHOUT_MOMENTUM, idle
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.links import Link, parse_cores, parse_link, parse_links, write_by_rank
from cluster.spec.quantities import parse_memory, write_memory
from cluster.spec.strategies import (
    AVERAGES,
    BUFFERS,
    REDUCTIONS,
    SCHEDULES,
    STRATEGIES,
    WARMUP_EPOCHS,
    own_defaults,
)

MAX_WORKERS = 256
MAX_GPUS = 16
"""Of one host, and so of one process."""

ENGINES = ("docker", "netns")
EXISTING = "existing"
"""The engine of nodes that are there already; chosen by --spark-master alone."""
COMPRESSIONS = ("none", "fp16", "bf16")
OPTIMIZERS = {
    "sgd": "stochastic gradient descent with momentum",
    "adamw": "Adam with decoupled weight decay",
    "lars": "SGD whose step in each layer is in proportion to its weights, for large batches",
}
OFF: dict[str, Any] = {"lr_rule": "none", "warmup_epochs": 0.0}
"""What leaves the rate alone, which is never refused."""
MOMENTUM = 0.5
LR_RULES = {
    "none": "the rate as it is",
    "linear": "times the number of batches in an update: of workers, times --local-steps for gradients",
    "sqrt": "times the square root of the number of workers",
    "auto": "the strategy's own: sqrt, and none for one worker, with --global-batch-size and with --reduce sum",
}
SHUFFLES = {
    "epoch": "every epoch in an order of its own",
    "fixed": "the first epoch's order again and again, as where a sampler is not told the epoch",
}


def node_name(rank: int) -> str:
    return f"node{rank}"


def _option(default: Any, group: str, help: str, unit: str = "") -> Any:
    return field(default=default, metadata={"group": group, "help": help, "unit": unit})


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One run. Frozen and complete: what is not said is a default, and defaults are stored too."""

    strategy: str = _option(
        "allreduce", "strategy", "how workers combine what they learned", "NAME"
    )
    workers: int = _option(4, "cluster", "number of nodes, one worker each", "N")
    passes: int | None = _option(
        None,
        "strategy",
        "hops an update travels round the ring before it is averaged: groups of P+1 workers"
        " (only pairwise has passes; 1 = pairs)",
        "P",
    )
    schedule: str | None = _option(
        None,
        "strategy",
        "who meets whom in a round of pairwise (default: ring; auto chooses by consensus per byte)",
        "NAME",
    )
    local_steps: int = _option(
        1,
        "strategy",
        "steps between two exchanges: gradients are accumulated, parameters trained on locally"
        " (default: 1; 8 for local-sgd)",
        "H",
    )
    average: str | None = _option(
        None,
        "strategy",
        "what is averaged: gradients before the update or parameters after it"
        " (default: parameters for pairwise and local-sgd, else gradients)",
        "WHAT",
    )
    reduce: str = _option(
        "mean", "strategy", "gradients are averaged or only added up (N times the step)", "HOW"
    )
    bucket_mb: float | None = _option(
        None,
        "strategy",
        "exchange the model in pieces of so many MiB, as whole tensors; 0 is one tensor at a time"
        " (default: all at once; with --overlap chosen from the model and the link; 25 for ddp)",
        "MIB",
    )
    overlap: bool = _option(
        False, "strategy", "let pieces leave during backward, as soon as they are ready", "yes|no"
    )
    compress: str = _option(
        "none", "strategy", "how numbers are made smaller before they are sent", "NAME"
    )
    buffers: str | None = _option(
        None,
        "strategy",
        "what happens to buffers such as batch-norm statistics after an exchange (default: average for"
        " pairwise, else broadcast)",
        "WHAT",
    )
    epochs: int = _option(12, "training", "times every worker goes through its shard", "E")
    train_size: int = _option(6000, "training", "training samples, all workers together", "SAMPLES")
    batch_size: int = _option(64, "training", "samples per step and worker", "SAMPLES")
    lr: float = _option(
        0.05,
        "training",
        "learning rate, for one worker's batch; with --global-batch-size for that of all",
        "RATE",
    )
    momentum: float | None = _option(
        None, "training", "momentum of SGD and LARS, 0 to below 1 (default: 0.5)", "M"
    )
    seed: int = _option(1, "training", "seed of weights, shuffles and random schedules", "SEED")
    engine: str = _option("netns", "cluster", "what the nodes are made of", "NAME")
    cpus: float | None = _option(
        None, "cluster", "CPU cores each node may use at most (default: no limit)", "CORES"
    )
    link: str | None = _option(
        None,
        "cluster",
        "what every node is attached with, in both directions: 20mbit, or 100mbit/5ms/0.1% with delay"
        " and loss where the kernel has netem (default: as fast as the machine can)",
        "RATE[/DELAY[/LOSS]]",
    )
    bottleneck: str | None = _option(
        None,
        "cluster",
        "nodes with a link of their own: 2:20mbit, or 0:20mbit,2:5mbit for two of them; again for"
        " another case: --bottleneck none --bottleneck 2:20mbit makes two runs",
        "RANK:LINK[,...]",
    )
    straggler: str | None = _option(
        None,
        "cluster",
        "nodes with CPU cores of their own: 1:0.5; again for another case, as with bottleneck",
        "RANK:CORES[,...]",
    )
    total_memory: str | None = _option(
        None,
        "cluster",
        "memory of all nodes that train together, each an equal share: 6g or 900m, powers of 1024; none is"
        " no limit (default: none)",
        "SIZE",
    )
    interval: float = _option(
        1.0,
        "cluster",
        "seconds between readings of the Docker API; kernel counters are read ten times as often",
        "SECONDS",
    )
    model: str = _option(
        "mnist-cnn",
        "training",
        "the network (below), or synthetic:SIZE[:LAYERS[:COMPUTE]], such as synthetic:16M:64:2s: layers of"
        " so many bytes in all whose forward and backward take that long by sleeping; or"
        " synthetic:resnet50|vgg16|bert-base|gpt2[:COMPUTE]: layers as that network has them",
        "NAME",
    )
    dataset: str | None = _option(
        None, "training", "what it is trained on (default: the first below that it takes)", "NAME"
    )
    launcher: str = _option(
        "torch",
        "cluster",
        "the library that runs the workers and carries what they exchange",
        "NAME",
    )
    timeline: bool = _option(
        False,
        "cluster",
        "keep Horovod's timeline of a run, logs/timeline.json in its folder, for a browser's tracing page;"
        " writing it takes a core of node 0",
        "yes|no",
    )
    optimizer: str = _option("sgd", "training", "how gradients become an update", "NAME")
    weight_decay: float = _option(
        0.0, "training", "how much of every parameter an update takes away, times the rate", "D"
    )
    lr_rule: str = _option(
        "auto", "training", "what becomes of the rate when several batches make an update", "NAME"
    )
    warmup_epochs: float | None = _option(
        None,
        "training",
        "epochs in which the rate rises to its full value, step by step (default: 1 where a rule raises it"
        " and there are more, else 0)",
        "E",
    )
    partition: str = _option(
        "iid",
        "training",
        "how training samples are spread: iid (alike), label (sorted by label), or dirichlet:ALPHA (the"
        " smaller ALPHA, the more uneven)",
        "HOW",
    )
    shuffle: str = _option("epoch", "training", "in what order samples come", "HOW")
    augment: bool = _option(
        False, "training", "move training images by up to 4 pixels, mirror half of them", "yes|no"
    )
    test_size: int | None = _option(
        None, "training", "test samples that score the result (default: all)", "SAMPLES"
    )
    gpu: int = _option(
        0,
        "cluster",
        "train on GPUs, one for each node, through NCCL; with strategy single, --gpu K is one process that"
        " splits every batch over K of them (nn.DataParallel); 0 is the CPU, through Gloo (default: 0)",
        "K",
    )

    def __post_init__(self) -> None:
        for name in _kinds():
            _typed(name, getattr(self, name))
        one_of("launcher", self.launcher, LAUNCHERS)
        one_of("strategy", self.strategy, STRATEGIES)
        is_synthetic = self._check_model()
        facts = STRATEGIES[self.strategy]
        self._fill(average=facts.averages[0], buffers=facts.buffers)
        fitting = ["none"] if is_synthetic else catalogue.fitting(self.model)
        self._fill(dataset=fitting[0])
        self._check_data(fitting)
        self._check_training()
        one_of("average", str(self.average), AVERAGES)
        one_of("reduce", self.reduce, REDUCTIONS)
        one_of("buffers", str(self.buffers), BUFFERS)
        one_of("engine", self.engine, (*ENGINES, EXISTING))
        one_of("compress", self.compress, COMPRESSIONS)
        if self.schedule is not None:
            one_of("schedule", self.schedule, SCHEDULES)
        between("workers", self.workers, 1, MAX_WORKERS)
        between("epochs", self.epochs, 1, 100_000)
        between("local_steps", self.local_steps, 1, 100_000)
        between("train_size", self.train_size, 1, 10**9)
        between("batch_size", self.batch_size, 1, 10**9)
        between("seed", self.seed, 0, 2**31 - 1)
        between("interval", self.interval, 0.1, 3600)
        between("lr", self.lr, 1e-9, 1000)
        if self.cpus is not None:
            between("cpus", self.cpus, 0.01, 1024)
        if self.bucket_mb is not None:
            between("bucket_mb", self.bucket_mb, 0, 1024 * 1024)
        self._refuse(idle(self.model, self.optimizer))
        self._check_strategy()
        self._check_nodes()
        self._check_memory()
        self._check_gpu()
        if self.steps_per_epoch < 1:
            raise SpecError(
                f"batch_size {self.batch_size} is larger than a worker's shard: train_size"
                f" {self.train_size} over {self.workers} workers is"
                f" {self.train_size // self.workers} samples; lower --batch-size or raise"
                " --train-size"
            )
        if self.warmup_epochs is None:
            rises = self.lr_rule != "none" and self.steps_per_epoch > 1 and self.epochs > 1
            self._fill(warmup_epochs=WARMUP_EPOCHS if rises else 0.0)
        elif self.warmup_epochs > self.epochs:
            raise SpecError(
                f"warmup_epochs {self.warmup_epochs:g} is more than the {self.epochs} epochs of a run, in which"
                " the rate would never be reached"
            )
        elif self.warmup_epochs and self.warmup_steps < 2:
            raise SpecError(
                f"warmup_epochs {self.warmup_epochs:g} is no rise: an epoch has {self.steps_per_epoch} steps,"
                f" and a rise takes 2; use --warmup-epochs {2 / self.steps_per_epoch:g} or more"
            )

    def _fill(self, **defaults: object) -> None:
        """What was not said has a default that depends on the rest, and is stored like all others."""
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)

    def _check_model(self) -> bool:
        """Is it a synthetic one?"""
        if self.model.startswith(synthetic.PREFIX):
            try:
                synthetic.parse(self.model)
            except ValueError as error:
                raise SpecError(f"model {self.model}: {error}") from None
            return True
        one_of("model", self.model, [*MODELS, synthetic.FORM, synthetic.PROFILE_FORM])
        return False

    def _check_data(self, fitting: list[str]) -> None:
        one_of("dataset", str(self.dataset), DATASETS)
        gives = DATASETS[str(self.dataset)].gives
        if self.dataset not in fitting:
            takes = DATASETS[fitting[0]].gives
            raise SpecError(
                f"model {self.model} does not fit dataset {self.dataset}: it takes {takes}, not"
                f" {gives}; use --dataset {' or '.join(fitting)}"
            )
        try:
            catalogue.parse_partition(self.partition)
        except ValueError as error:
            raise SpecError(f"partition {self.partition!r}: {error}") from None
        if self.augment and not gives.startswith("images"):
            raise SpecError(f"augment is for images; {self.dataset} gives {gives}")
        one_of("shuffle", self.shuffle, SHUFFLES)
        if self.shuffle == "fixed" and self.epochs == 1:
            raise SpecError("shuffle fixed shows from the second epoch on, and epochs is 1")
        if self.test_size is not None:
            between("test_size", self.test_size, 1, max(1, DATASETS[str(self.dataset)].test_size))

    def _check_training(self) -> None:
        one_of("optimizer", self.optimizer, OPTIMIZERS)
        one_of("lr_rule", self.lr_rule, LR_RULES)
        if self.optimizer not in WITHOUT_MOMENTUM:
            self._fill(momentum=MOMENTUM)
        if self.momentum is not None and not 0 <= self.momentum < 1:
            raise SpecError(f"momentum must be at least 0 and below 1, not {self.momentum:g}")
        if self.lr_rule == "auto":
            object.__setattr__(self, "lr_rule", self._usual_rule())
        between("weight_decay", self.weight_decay, 0, 1)
        between("warmup_epochs", self.warmup_epochs or 0, 0, 100_000)

    def _usual_rule(self) -> str:
        """A sum of gradients is N times their mean already; and where nothing is learned there is no rate."""
        alone = self.workers == 1 or self.reduce == "sum" or self.dataset == "none"
        return "none" if alone else STRATEGIES[self.strategy].lr_rule

    def _check_strategy(self) -> None:
        facts = STRATEGIES[self.strategy]
        if not facts.exchanges and self.workers != 1:
            raise SpecError(
                f"strategy {self.strategy} has one worker, not {self.workers}: use --workers 1"
            )
        self._refuse(
            {option: f"strategy {self.strategy}, {why}" for option, why in facts.refuses.items()}
        )
        launcher = LAUNCHERS[self.launcher]
        if self.strategy not in launcher.strategies:
            raise SpecError(
                f"launcher {self.launcher} has no {self.strategy}: {launcher.offers};"
                f" it has: {', '.join(launcher.strategies)}"
            )
        self._refuse(
            {option: f"launcher {self.launcher}, {why}" for option, why in launcher.refuses.items()}
        )
        if self.average == "parameters":
            if self.reduce == "sum":
                raise SpecError(
                    "reduce sum makes no sense for parameters: N models added up are no model;"
                    " use --average gradients, or --reduce mean"
                )
            if self.overlap:
                raise SpecError(
                    "overlap needs --average gradients: parameters are only known after the update,"
                    " when backward is over"
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
        between("passes", self.passes, 1, MAX_WORKERS)
        if self.schedule is None:
            raise SpecError(f"strategy {self.strategy} needs a schedule: {', '.join(SCHEDULES)}")
        if self.schedule == "exponential" and 1 < self.passes < self.workers - 1:
            raise SpecError(
                f"schedule exponential makes pairs, so passes must be 1, not {self.passes};"
                " use schedule grid for larger groups"
            )

    def _refuse(self, refused: dict[str, str]) -> None:
        """A option that was turned, or turned to a value, where that makes no sense -> where, and why."""
        default = {f.name: f.default for f in dataclasses.fields(self)}
        default |= own_defaults(self.strategy)
        default |= OFF
        if self.optimizer not in WITHOUT_MOMENTUM:
            default |= {"momentum": MOMENTUM}
        for option, reason in refused.items():
            name, _, value = option.partition("=")
            turned = getattr(self, name)
            if turned == value if value else turned not in (default[name], None):
                raise SpecError(f"{option.replace('=', ' ')} does not apply to {reason}")

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in the smallest shard: every worker makes the same number of steps."""
        return self.train_size // self.workers // self.batch_size

    @property
    def warmup_steps(self) -> int:
        """In which the rate rises."""
        assert self.warmup_epochs is not None
        return round(self.warmup_epochs * self.steps_per_epoch)

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
    def nodes(self) -> int:
        """Workers are ranks 0 to workers-1; a server is one node more."""
        return self.workers + STRATEGIES[self.strategy].has_server

    def _check_nodes(self) -> None:
        """Links and stragglers, by rank; stored in one way of writing, so that equal ones are equal."""
        for name, parse, write in (
            ("link", parse_link, str),
            ("bottleneck", parse_links, write_by_rank),
            ("straggler", parse_cores, write_by_rank),
        ):
            text = getattr(self, name)
            if text is None:
                continue
            try:
                parsed: Any = parse(text)
            except ValueError as error:
                raise SpecError(f"{name} {text!r}: {error}") from None
            for rank in parsed if isinstance(parsed, dict) else ():
                if rank >= self.nodes:
                    raise SpecError(
                        f"{name} {text!r}: there is no node {rank}, the {self.nodes} nodes are 0 to"
                        f" {self.nodes - 1}"
                    )
            object.__setattr__(self, name, write(parsed))

    def _check_memory(self) -> None:
        """A share in which no worker can start is refused; stored in one way of writing."""
        if self.total_memory is None:
            return
        try:
            size = parse_memory(self.total_memory)
        except ValueError as error:
            raise SpecError(f"total_memory {self.total_memory!r}: {error}") from None
        object.__setattr__(self, "total_memory", write_memory(size))
        least = LAUNCHERS[self.launcher].least_memory
        if size // self.nodes < least:
            raise SpecError(
                f"total_memory {self.total_memory} is {size // self.nodes // 2**20}m for each of {self.nodes}"
                f" nodes, and a worker of launcher {self.launcher} needs {write_memory(least)} to start:"
                f" use --total-memory {write_memory(least * self.nodes)} or more, or fewer nodes"
            )

    def _check_gpu(self) -> None:
        between("gpu", self.gpu, 0, MAX_GPUS)
        if not self.gpu:
            return
        if self.gpu > 1 and STRATEGIES[self.strategy].exchanges:
            raise SpecError(
                f"gpu {self.gpu} is one process with several GPUs, which is for strategy single;"
                f" {self.strategy} has a process for each: use --gpu, and as many --workers"
            )
        if self.launcher == "spark":
            raise SpecError("gpu does not apply to launcher spark: use torch or horovod")
        for option in ("link", "bottleneck"):
            if getattr(self, option) is not None:
                raise SpecError(
                    f"{option} does not go with gpu: it shapes eth0, which traffic between GPUs of one host"
                    " does not cross"
                )

    @property
    def device(self) -> str:
        """Where tensors are, as torch calls it. The one place that decides."""
        return "cuda" if self.gpu else "cpu"

    @property
    def backend(self) -> str:
        """What carries them, as torch calls it."""
        return "nccl" if self.gpu else "gloo"

    @property
    def total_memory_bytes(self) -> int | None:
        return None if self.total_memory is None else parse_memory(self.total_memory)

    @property
    def memory_per_node(self) -> int | None:
        """Bytes, whole MiB; None where there is no limit."""
        total = self.total_memory_bytes
        return None if total is None else total // self.nodes // 2**20 * 2**20

    @property
    def node_names(self) -> list[str]:
        """By rank: those that exchange, then those that only attend."""
        return [node_name(rank) for rank in range(self.nodes)] + list(self.auxiliary_services)

    @property
    def auxiliary_services(self) -> tuple[str, ...]:
        """Nodes that a launcher adds: they train nothing, and their traffic is its own."""
        return () if self.engine == EXISTING else LAUNCHERS[self.launcher].auxiliary_services

    @property
    def all_names(self) -> list[str]:
        """The nodes', by rank, and then those of event_writers on hosts that are none of them."""
        return list(dict.fromkeys((*self.node_names, *self.event_writers)))

    @property
    def event_writers(self) -> tuple[str, ...]:
        """Nodes that write events, and whose last one ends the run."""
        return (*map(node_name, range(self.nodes)), *LAUNCHERS[self.launcher].event_writers)

    @property
    def links(self) -> dict[int, Link]:
        """The nodes whose link is shaped: a bottleneck's own link, else the one for all."""
        links = dict.fromkeys(range(self.nodes), parse_link(self.link)) if self.link else {}
        return {**links, **(parse_links(self.bottleneck) if self.bottleneck else {})}

    @property
    def rates_mbit(self) -> list[float | None]:
        """Of every node's link, both ways; None where nobody throttles it."""
        links = self.links
        return [links[rank].rate_mbit if rank in links else None for rank in range(self.nodes)]

    @property
    def slowest_mbit(self) -> float | None:
        """Of the links that are throttled."""
        return min((rate for rate in self.rates_mbit if rate is not None), default=None)

    @property
    def cpus_by_rank(self) -> dict[int, float]:
        """The nodes whose CPUs are limited: a straggler's own limit, else the one for all."""
        limits = {} if self.cpus is None else dict.fromkeys(range(self.nodes), self.cpus)
        return {**limits, **(parse_cores(self.straggler) if self.straggler else {})}

    @property
    def cluster(self) -> tuple[object, ...]:
        """What a run asks of its nodes; runs that ask for the same can share them."""
        return (
            *(self.nodes, self.cpus, self.link, self.bottleneck, self.straggler),
            *(self.launcher, self.total_memory, self.gpu),
        )

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
        if self.overlap:
            parts.append("overlap")
        if self.launcher != "torch":
            parts.append(self.launcher)
        if self.gpu:
            parts.append("gpu" if self.gpu == 1 else f"gpu{self.gpu}")
        if self.link is not None:
            parts.append(self.link.partition("/")[0])
        if self.bottleneck is not None:
            parts += ["slow", *map(str, parse_links(self.bottleneck))]
        if self.straggler is not None:
            parts += ["straggler", *map(str, parse_cores(self.straggler))]
        return "-".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Experiment:
        """The inverse of to_json; refuses what it does not know rather than dropping it."""
        values = dict(schema1.upgrade_spec(document))
        schema = values.pop("schema", None)
        if schema != SCHEMA:
            raise SpecError(f"schema of the spec must be 1 or {SCHEMA}, not {schema!r}")
        unknown = sorted(set(values) - {f.name for f in dataclasses.fields(cls)})
        if unknown:
            raise SpecError(f"unknown field in the spec: {', '.join(unknown)}")
        return cls(**values)


def strategies_with_passes() -> list[str]:
    return [name for name, facts in STRATEGIES.items() if facts.has_passes]


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
