"""What an Experiment does when it is made: fill in defaults that depend on others, refuse the rest.

Every function takes the new experiment; a refusal is a SpecError that names the option, what was
given and what would be right.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from cluster.spec import catalogue, link_checks, own_code, program, synthetic, virtual
from cluster.spec.catalogue import DATASETS, MODELS
from cluster.spec.continuing import check_state
from cluster.spec.dilation import AUTO, LEAST_CORES, UNDILATED, parse_dilation
from cluster.spec.documents.codec import DocumentError, hints, reader
from cluster.spec.errors import SpecError, between, one_of
from cluster.spec.exchange.algorithms import ALGORITHMS
from cluster.spec.exchange.algorithms import NONE as NO_ALGORITHM
from cluster.spec.exchange.codecs import Codec, parse_codec
from cluster.spec.exchange.outer import parse_outer
from cluster.spec.exchange.strategies import (
    GRACE,
    OF_FEW,
    WARMUP_EPOCHS,
    facts_of,
    own_defaults,
)
from cluster.spec.exchange.stream import parse_stream
from cluster.spec.faults import checks as faults
from cluster.spec.fields import parsed, set_fields
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.options import (
    CROSS_ENTROPY,
    HELD_OUT,
    MOMENTUM,
    OFF,
    WITHOUT_MOMENTUM,
    ineffective_options,
)
from cluster.spec.own_code import LIBRARY_FORMS
from cluster.spec.quantities import parse_memory, write_memory

if TYPE_CHECKING:
    from cluster.spec.experiment import Experiment

T = TypeVar("T")

OWN_FORM = "FILE.py:NAME"
OUTER_STRATEGIES = ("local-sgd", "pairwise")
"""Whose exchange has a form in two phases (schedules.messages.all_reduce)."""


def complete(experiment: Experiment) -> None:
    """SpecError for what cannot be run; else every option has a value that is stored."""
    _check_types(experiment)
    for field in dataclasses.fields(experiment):
        if (value := getattr(experiment, field.name)) is not None:
            check_value(field, value)
    if experiment.program is not None:
        program.complete(experiment)
        link_checks.check(experiment)
        link_checks.check_changes(experiment)
        _check_memory(experiment)
        _check_dilation(experiment)
        return
    program.refuse_alone(experiment)
    _check_own_code(experiment)
    _check_model(experiment)
    codec = parsed("compress", parse_codec, experiment.compress)
    _check_algorithm(experiment)
    _fill_defaults(experiment)
    _check_data(experiment)
    if experiment.momentum is not None and not 0 <= experiment.momentum < 1:
        raise SpecError(f"momentum must be at least 0 and below 1, not {experiment.momentum:g}")
    _refuse(experiment, ineffective_options(experiment.model, experiment.optimizer))
    _check_strategy(experiment)
    _check_virtual(experiment)
    _check_outer(experiment)
    _check_codec(experiment, codec)
    _check_stream(experiment, codec)
    _check_own_options(experiment)
    link_checks.check(experiment)
    _check_memory(experiment)
    _check_dilation(experiment)
    _check_gpu(experiment)
    _check_steps(experiment)
    link_checks.check_changes(experiment)
    check_state(experiment)
    faults.check(experiment)


def check_value(field: dataclasses.Field[Any], value: Any) -> None:
    """SpecError where an option does not take this value, whatever the others are."""
    if field.name == "strategy":
        if own_code.is_own(value):
            own_code.parse(field.name, value)
        facts_of(value)
    if field.metadata["choices"] and not _may_be_own(field.name, value):
        one_of(field.name, value, field.metadata["choices"])
    if field.metadata["within"] is not None:
        between(field.name, value, *field.metadata["within"])


def _may_be_own(option: str, value: Any) -> bool:
    """Whether a value names a file, or what is in a package, where the option takes that."""
    is_file = option in own_code.OPTIONS and own_code.is_own(value)
    return is_file or (option in own_code.LIBRARY_FORMS and own_code.is_foreign(value))


def _check_own_code(experiment: Experiment) -> None:
    """Each names a file in the form of its option; the folder of all is known."""
    values = {option: getattr(experiment, option) for option in own_code.OPTIONS}
    for option in own_code.files_of(values):
        own_code.parse(option, values[option])
        if experiment.folder is None:
            raise SpecError(f"{option} {values[option]} needs the folder that the file is in")


def _check_types(experiment: Experiment) -> None:
    """A spec.json may be edited by hand: text is no number, and true is no 1."""
    for field in dataclasses.fields(experiment):
        value = getattr(experiment, field.name)
        if value is None and field.default is None:
            continue  # it is filled in
        try:
            reader(hints(type(experiment))[field.name])(value)
        except DocumentError as error:
            raise SpecError(f"{field.name} {error}") from None


def _check_model(experiment: Experiment) -> None:
    if not own_code.is_own(experiment.loss):
        one_of("loss", experiment.loss, [CROSS_ENTROPY, OWN_FORM])
    if own_code.is_foreign(experiment.model):
        return
    if not experiment.model.startswith(synthetic.PREFIX):
        forms = [synthetic.FORM, synthetic.PROFILE_FORM, OWN_FORM, *LIBRARY_FORMS["model"]]
        one_of("model", experiment.model, [*MODELS, *forms])
        return
    parsed(f"model {experiment.model}", synthetic.parse, experiment.model)


def _check_algorithm(experiment: Experiment) -> None:
    """Its name stands for options that were filled in before (cluster/presets.py)."""
    if experiment.algorithm in (None, NO_ALGORITHM):
        set_fields(experiment, algorithm=None)
        return
    strategy = ALGORITHMS[experiment.algorithm].options["strategy"]
    if experiment.strategy != strategy:
        raise SpecError(
            f"algorithm {experiment.algorithm} is a form of strategy {strategy}, not of"
            f" {experiment.strategy}: leave out one of both"
        )


def _fill_defaults(experiment: Experiment) -> None:
    """Defaults that depend on other options; warmup_epochs waits for the number of steps."""
    facts = facts_of(experiment.strategy)
    defaults: dict[str, object] = {
        "average": facts.averages[0],
        "buffers": facts.buffers,
        "local_steps": facts.local_steps,
        "dataset": None if own_code.is_foreign(experiment.model) else _fitting(experiment)[0],
    }
    lossy = parse_codec(experiment.compress).lossy
    if lossy and not experiment.averages_some:
        defaults["error_feedback"] = 1.0
    of_deltas = lossy or experiment.stream != "none"
    defaults["outer"] = "sgd:1" if of_deltas and experiment.strategy == "local-sgd" else "none"
    if facts.has_passes:
        defaults |= {"passes": 1, "schedule": "ring"}
    if "quorum" in facts.own_options:
        defaults |= {"quorum": max(1, experiment.workers - 1), "grace": GRACE}
    if experiment.optimizer not in WITHOUT_MOMENTUM:
        defaults["momentum"] = MOMENTUM
    for name, default in defaults.items():
        if getattr(experiment, name) is None:
            set_fields(experiment, **{name: default})
    if experiment.dataset is None:
        raise SpecError(
            f"model {experiment.model} needs --dataset: {OWN_FORM}, torchvision:NAME, or one of"
            f" {', '.join(_fitting(experiment))}"
        )
    if experiment.lr_rule == "auto":
        # A sum of gradients is N times their mean already; without data nothing is learned.
        alone = experiment.workers == 1 or experiment.reduce == "sum"
        unscaled = alone or experiment.dataset == "none"
        set_fields(experiment, lr_rule="none" if unscaled else facts.lr_rule)


def _fitting(experiment: Experiment) -> list[str]:
    """The data sets that the model takes; a user's own says nothing of what it takes."""
    if experiment.model.startswith(synthetic.PREFIX):
        return ["none"]
    if own_code.is_foreign(experiment.model):
        return [name for name in DATASETS if name != "none"]
    return catalogue.fitting(experiment.model)


def _check_data(experiment: Experiment) -> None:
    facts, fitting = catalogue.data_facts(experiment.dataset), _fitting(experiment)
    is_foreign = own_code.is_foreign(experiment.dataset) and fitting != ["none"]
    if experiment.dataset not in fitting and not is_foreign:
        raise SpecError(
            f"model {experiment.model} does not fit dataset {experiment.dataset}: it takes"
            f" {DATASETS[fitting[0]].gives}, not {facts.gives}; use --dataset"
            f" {' or '.join(fitting)}"
        )
    how = experiment.partition
    parsed(f"partition {how!r}", catalogue.parse_partition, how)
    if how != "iid" and facts.predictions > 1:
        raise SpecError(
            f"partition {how} needs a label for each sample; {experiment.dataset} gives"
            f" {facts.gives}: use --partition iid"
        )
    if experiment.augment and not facts.gives.startswith("images"):
        raise SpecError(f"augment is for images; {experiment.dataset} gives {facts.gives}")
    if experiment.shuffle == "fixed" and experiment.epochs + experiment.epochs_before == 1:
        raise SpecError("shuffle fixed shows from the second epoch on, and epochs is 1")
    if experiment.score_on == HELD_OUT and experiment.train_size >= facts.train_size:
        raise SpecError(
            f"score_on held-out needs training samples that are left out, and train_size"
            f" {experiment.train_size:,} takes all {facts.train_size:,} of {experiment.dataset}"
        )
    if experiment.test_size is not None:
        between("test_size", experiment.test_size, 1, max(1, facts.test_size))


def _check_strategy(experiment: Experiment) -> None:
    strategy, launcher = experiment.strategy, experiment.carrier
    facts = facts_of(strategy)
    if not facts.exchanges and experiment.workers != 1:
        raise SpecError(
            f"strategy {strategy} has one worker, not {experiment.workers}: use --workers 1"
        )
    _refuse(
        experiment, {name: f"strategy {strategy}, {why}" for name, why in facts.refuses.items()}
    )
    if facts.needs_sites and experiment.workers > 1 and experiment.sites is None:
        half = experiment.workers // 2
        raise SpecError(
            f"strategy {strategy} averages inside sites and between them: say which workers are in"
            f" which, such as --sites a:{experiment.workers - half},b:{half}"
        )
    if own_code.is_own(strategy) and launcher.has is not None:
        raise SpecError(
            f"strategy {strategy} does not apply to launcher {experiment.launcher}: your own"
            " exchange uses torch.distributed; use --launcher torch"
        )
    if not own_code.is_own(strategy) and strategy not in launcher.strategies:
        raise SpecError(
            f"launcher {experiment.launcher} has no {strategy}: {launcher.offers};"
            f" it has: {', '.join(launcher.strategies)}"
        )
    reasons = {n: f"launcher {experiment.launcher}, {why}" for n, why in launcher.refuses.items()}
    _refuse(experiment, reasons)
    if experiment.average == "parameters" and experiment.reduce == "sum":
        raise SpecError(
            "reduce sum makes no sense for parameters: N models added up are no model;"
            " use --average gradients, or --reduce mean"
        )
    if experiment.average == "parameters" and experiment.overlap:
        raise SpecError(
            "overlap needs --average gradients: parameters are only known after the update,"
            " when backward is over"
        )


def _check_virtual(experiment: Experiment) -> None:
    if not experiment.virtual:
        most = virtual.MOST_REAL_WORKERS
        if experiment.workers > most:
            raise SpecError(
                f"workers {experiment.workers} are more nodes than the {most} that fit a machine:"
                f" use --virtual {experiment.workers}, workers that share one node"
            )
        return
    if experiment.launcher != "torch" and not LAUNCHERS[experiment.launcher].spreads_virtual:
        raise SpecError(
            f"virtual does not apply to launcher {experiment.launcher}: exchanges are copies in"
            " memory; use --launcher torch, or ray or spark for runs that hosts of a cluster share"
        )
    if not facts_of(experiment.strategy).exchanges:
        raise SpecError(f"virtual does not apply to strategy {experiment.strategy}, of one node")
    if experiment.dilation not in (None, UNDILATED, "1"):
        raise SpecError(
            f"dilation {experiment.dilation} does not apply to virtual workers, whose times are"
            " predicted: nothing is slowed down; leave it out"
        )
    if experiment.is_unpaced:
        raise SpecError(
            f"virtual does not apply to strategy {experiment.strategy}: without a barrier, what is"
            " learned depends on the time of every message"
        )
    _refuse(experiment, virtual.REFUSED)


def _check_outer(experiment: Experiment) -> None:
    """An outer optimiser needs local training between rounds."""
    outer = parsed("outer", parse_outer, experiment.outer)
    if outer and experiment.strategy not in OUTER_STRATEGIES:
        raise SpecError(
            f"outer {experiment.outer} does not apply to strategy {experiment.strategy} averaging"
            f" {experiment.average}: it takes outer deltas of {' or '.join(OUTER_STRATEGIES)}"
        )
    if outer and not experiment.carrier.is_torch:
        raise SpecError(
            f"outer {experiment.outer} does not apply to launcher {experiment.launcher}: use torch"
        )


def _check_codec(experiment: Experiment, used: Codec) -> None:
    """A lossy codec needs an exchange that decodes, and differences instead of parameters."""
    codec = f"compress {experiment.compress}"
    if not used.lossy:
        if experiment.error_feedback is not None:
            raise SpecError(
                f"error_feedback does not apply to {codec}, which loses next to nothing"
            )
        return
    if experiment.strategy not in used.carriers:
        raise SpecError(
            f"{codec} does not apply to strategy {experiment.strategy},"
            f" {used.why_not(experiment.strategy)}; use {', '.join(used.carriers)}"
        )
    if not experiment.carrier.is_torch:
        raise SpecError(
            f"{codec} does not apply to launcher {experiment.launcher}, whose own all-reduce adds"
            " up numbers; use --launcher torch"
        )
    if experiment.gpu:
        raise SpecError(f"{codec} does not go with gpu: it is for exchanges on Gloo")
    if experiment.averages_some:
        if experiment.error_feedback is not None:
            raise SpecError(
                f"error_feedback does not apply to {codec} of parameters: those that are not"
                " averaged stay as they are, and nothing is lost"
            )
    elif experiment.strategy != "local-sgd" and experiment.average == "parameters":
        raise SpecError(
            f"{codec} makes no sense for averaged parameters, which it would damage: use --average"
            " gradients, or --strategy local-sgd, which exchanges outer deltas"
        )
    if experiment.strategy == "local-sgd" and experiment.outer == "none":
        raise SpecError(f"{codec} with local-sgd encodes outer deltas: use --outer sgd:1, not none")
    if experiment.strategy != "ddp" and (experiment.bucket_mb is not None or experiment.overlap):
        raise SpecError(f"{codec} encodes the model in one piece: leave out bucket_mb and overlap")
    if experiment.buffers == "average" and "buffers" not in ineffective_options(
        experiment.model, experiment.optimizer
    ):
        raise SpecError(f"{codec} does not go with --buffers average: use broadcast or local")


def _check_stream(experiment: Experiment, used: Codec) -> None:
    """Streaming exchanges fragments of outer deltas beside local training."""
    stream, text = parsed("stream", parse_stream, experiment.stream), experiment.stream
    if stream is None:
        return
    by_torch = experiment.launcher == "torch" or experiment.virtual
    if experiment.strategy != "local-sgd" or not by_torch or experiment.gpu:
        raise SpecError(
            f"stream {text} does not apply to strategy {experiment.strategy} with launcher"
            f" {experiment.launcher}{' and gpu' if experiment.gpu else ''}: it exchanges outer"
            " deltas of local-sgd, on Gloo; use --strategy local-sgd with launcher torch"
        )
    if experiment.outer == "none":
        raise SpecError(f"stream {text} exchanges outer deltas: use --outer sgd:1, not none")
    if stream.delay > experiment.local_steps:
        raise SpecError(
            f"stream {text}: DELAY is {stream.delay} steps, and the next round begins after"
            f" {experiment.local_steps}; use at most as many, or more --local-steps"
        )
    if used.rank:
        raise SpecError(
            f"compress {experiment.compress} does not go with stream, whose fragments are no layers"
        )
    if experiment.bucket_mb is not None or experiment.overlap:
        raise SpecError(f"stream {text} exchanges fragments: leave out bucket_mb and overlap")


def _check_own_options(experiment: Experiment) -> None:
    """Options that only a few strategies have."""
    passes, workers, quorum = experiment.passes, experiment.workers, experiment.quorum
    for name in OF_FEW:
        own = name in facts_of(experiment.strategy).own_options
        if not own and getattr(experiment, name) is not None:
            raise SpecError(no_such_option(name, experiment.strategy))
    if experiment.schedule == "exponential" and passes and 1 < passes < workers - 1:
        raise SpecError(
            f"schedule exponential makes pairs, so passes must be 1, not {passes};"
            " use schedule grid for larger groups"
        )
    if quorum is not None and quorum > workers:
        raise SpecError(
            f"quorum {quorum} is more than the {workers} workers: use {workers} to wait for all, or"
            " fewer"
        )


def no_such_option(name: str, strategies: str) -> str:
    """What an option is told where no strategy has it."""
    having = ", ".join(OF_FEW[name])
    return f"{name} does not apply to strategy {strategies}; it applies to: {having}"


def _refuse(experiment: Experiment, refused: dict[str, str]) -> None:
    """Refuse options that differ from their default, or option=value; `refused` says why."""
    default = {field.name: field.default for field in dataclasses.fields(experiment)}
    default |= own_defaults(experiment.strategy)
    default |= OFF
    if experiment.optimizer not in WITHOUT_MOMENTUM:
        default |= {"momentum": MOMENTUM}
    for option, reason in refused.items():
        name, _, value = option.partition("=")
        given = getattr(experiment, name)
        if given == value if value else given not in (default[name], None):
            raise SpecError(f"{option.replace('=', ' ')} does not apply to {reason}")


def _check_memory(experiment: Experiment) -> None:
    """Refuse a share in which no worker can start; store the total in one spelling."""
    total, nodes = experiment.total_memory, experiment.nodes
    if total is None:
        return
    size = parsed(f"total_memory {total!r}", parse_memory, total)
    set_fields(experiment, total_memory=write_memory(size))
    least = LAUNCHERS[experiment.launcher].least_memory
    if size // nodes < least:
        raise SpecError(
            f"total_memory {write_memory(size)} is {size // nodes // 2**20}m for each of {nodes}"
            f" nodes, and a worker of launcher {experiment.launcher} needs {write_memory(least)} to"
            f" start: use --total-memory {write_memory(least * nodes)} or more, or fewer nodes"
        )


def _check_dilation(experiment: Experiment) -> None:
    """Fill in the default: dilation is for times on shaped links, and pretended compute sleeps."""
    given: str | float | None = experiment.dilation
    if given is None:
        shaped = experiment.links or experiment.paths
        given = AUTO if shaped and experiment.can_be_dilated else UNDILATED
    set_fields(experiment, dilation=parsed("dilation", parse_dilation, str(given)))
    least = min(experiment.host_limits.values(), default=1.0)
    if least < LEAST_CORES:
        raise SpecError(
            f"dilation {experiment.slowdown:g} leaves a node {least:g} cores of this machine, and"
            f" {LEAST_CORES:g} is the least that can be set: use a smaller K, or more --cpus"
        )


def _check_gpu(experiment: Experiment) -> None:
    if not experiment.gpu:
        return
    if experiment.slowdown != 1:
        raise SpecError(
            f"dilation {experiment.slowdown:g} does not go with gpu: GPUs cannot be slowed down;"
            " use --dilation 1"
        )
    if experiment.gpu > 1 and facts_of(experiment.strategy).exchanges:
        raise SpecError(
            f"gpu {experiment.gpu} is one process with several GPUs, which is for strategy single;"
            f" {experiment.strategy} has a process for each: use --gpu, and as many --workers"
        )
    if experiment.launcher == "spark":
        raise SpecError("gpu does not apply to launcher spark: use torch or horovod")
    for option in ("link", "bottleneck", "between", "inside", "background"):
        if getattr(experiment, option) is not None:
            raise SpecError(
                f"{option} does not go with gpu: it is on eth0, which traffic between GPUs of one"
                " host does not cross"
            )


def _check_steps(experiment: Experiment) -> None:
    """Every worker needs a batch, and a warm-up two steps; fills in the default warm-up."""
    steps = experiment.steps_per_epoch
    epochs = experiment.epochs + experiment.epochs_before
    if steps < 1:
        shard = experiment.train_size // experiment.workers
        raise SpecError(
            f"batch_size {experiment.batch_size} is larger than a worker's shard: train_size"
            f" {experiment.train_size} over {experiment.workers} workers is {shard} samples; lower"
            " --batch-size or raise --train-size"
        )
    # Typed as a number, which it is from here on.
    warmup: float | None = experiment.warmup_epochs
    if warmup is None:
        is_scaled = experiment.lr_rule != "none" and steps > 1 and epochs > 1
        set_fields(experiment, warmup_epochs=WARMUP_EPOCHS if is_scaled else 0.0)
    elif warmup > epochs:
        raise SpecError(
            f"warmup_epochs {warmup:g} is more than the {epochs} epochs of a run, in which the full"
            " learning rate would never be reached"
        )
    elif warmup and experiment.warmup_steps < 2:
        raise SpecError(
            f"warmup_epochs {warmup:g} is no warm-up: an epoch has {steps} steps, and a warm-up"
            f" takes 2; use --warmup-epochs {2 / steps:g} or more"
        )
