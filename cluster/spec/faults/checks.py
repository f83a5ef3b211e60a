"""Which faults an experiment takes: nodes that exist, moments within the run, one at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import is_own
from cluster.spec.faults.fault import Act, Clock, Fault, parse_faults, write_faults
from cluster.spec.faults.storm import LEAST_UP, Storm, parse_storm

if TYPE_CHECKING:
    from cluster.spec.experiment import Experiment

STOP, CONTINUE = "stop", "continue"
HIERARCHICAL = "hierarchical"
ON_FAILURE = {
    STOP: "the run ends, and says which node failed and why",
    CONTINUE: "the others go on without the node, which may come back",
}


def check(experiment: Experiment) -> None:
    """Faults and storm in one spelling; SpecError for what cannot be done to this run."""
    _refuse_continue(experiment)
    if experiment.fault is None and experiment.storm is None:
        return
    option = "storm" if experiment.fault is None else "fault"
    if experiment.fault is not None and experiment.storm is not None:
        raise SpecError("fault and storm are two ways to say what happens: give one of them")
    if experiment.launcher != "torch":
        raise SpecError(
            f"{option} does not apply to launcher {experiment.launcher}, which starts and watches"
            " its workers itself: use --launcher torch"
        )
    if experiment.gpu:
        raise SpecError(f"{option} does not go with gpu: it is carried out on nodes with CPUs")
    try:
        if experiment.fault is not None:
            faults = parse_faults(experiment.fault)
            _check_faults(experiment, faults)
            object.__setattr__(experiment, "fault", write_faults(faults))
        if experiment.storm is not None:
            storm = parse_storm(experiment.storm)
            _check_storm(experiment, storm)
            object.__setattr__(experiment, "storm", str(storm))
    except SpecError:
        raise
    except ValueError as error:
        raise SpecError(f"{option} {getattr(experiment, option)!r}: {error}") from None


def _refuse_continue(experiment: Experiment) -> None:
    if experiment.on_failure != CONTINUE:
        return
    launcher, strategy = experiment.launcher, experiment.strategy
    streams = experiment.stream != "none"
    refused = {
        f"launcher {launcher}, which starts its workers itself: use torch": launcher != "torch",
        "gpu: it forms groups on Gloo": experiment.gpu > 0,
        "one worker, after whom nobody is left: use --workers 2 or more": experiment.workers == 1,
        f"strategy {strategy}, which is your own and planned for all workers": is_own(strategy),
        f"partition {experiment.partition} and strategy {strategy}, which deals samples to whoever"
        " is free: use --partition iid": experiment.is_unpaced and experiment.partition != "iid",
        f"stream {experiment.stream}, whose exchange goes on between steps": streams,
        f"strategy {strategy}, whose sites are planned for all workers": strategy == HIERARCHICAL,
    }
    for what, applies in refused.items():
        if applies:
            raise SpecError(f"on_failure continue does not go with {what}")


def _check_storm(experiment: Experiment, storm: Storm) -> None:
    if experiment.workers <= LEAST_UP:
        raise SpecError(
            f"storm needs more than {LEAST_UP} workers, so that as many are up in each of its"
            f" faults, not {experiment.workers}"
        )
    if Act.KILL in storm.every_s:
        _needs_continue(experiment, f"storm {storm}: a killed worker comes back")


def _check_faults(experiment: Experiment, faults: Sequence[Fault]) -> None:
    for fault in faults:
        _check_one(experiment, fault)
    for earlier, later in itertools.combinations(faults, 2):
        if earlier.rank == later.rank:
            _check_pair(earlier, later)
    absent = {fault.rank for fault in faults if fault.act == Act.JOIN}
    if len(absent) == experiment.workers:
        raise SpecError("fault: all workers join later, and nobody is there to begin")


def _check_one(experiment: Experiment, fault: Fault) -> None:
    nodes, moment = experiment.nodes, fault.moment
    if fault.rank >= nodes:
        raise SpecError(
            f"fault {fault}: there is no node {fault.rank}, the {nodes} nodes are 0 to {nodes - 1}"
        )
    is_server = fault.rank >= experiment.workers
    if is_server and moment.clock != Clock.SECONDS:
        raise SpecError(
            f"fault {fault}: node {fault.rank} is the parameter server, which makes no steps:"
            " give seconds, such as 30s"
        )
    most = {
        Clock.STEP: ("steps", experiment.steps_per_epoch * experiment.epochs),
        Clock.EXCHANGE: ("exchanges", experiment.rounds),
    }
    if moment.clock in most:
        what, count = most[moment.clock]
        if moment.at > count:
            raise SpecError(f"fault {fault} is after the end of the run, which has {count} {what}")
    if fault.act == Act.THROTTLE and fault.rank not in experiment.links:
        raise SpecError(
            f"fault {fault}: the link of node {fault.rank} has no rate that could be changed: give"
            " it one by --link or --bottleneck"
        )
    if fault.act == Act.THROTTLE and fault.rank in experiment.link_traces:
        raise SpecError(
            f"fault {fault}: the link of node {fault.rank} follows --link-trace, which would undo"
            " it: put its rates into the trace"
        )
    if fault.act == Act.JOIN and moment.clock == Clock.EXCHANGE:
        raise SpecError(
            f"fault {fault}: a node joins between two exchanges: give a step or seconds, such as"
            f" {fault.rank}:join@step40"
        )
    if fault.comes_back:
        _needs_continue(experiment, f"fault {fault}: node {fault.rank} comes later or comes back")


def _needs_continue(experiment: Experiment, what: str) -> None:
    if experiment.on_failure != CONTINUE:
        raise SpecError(
            f"{what}, which needs --on-failure continue: with {experiment.on_failure} the run ends"
            " when a worker is not there"
        )


def _check_pair(earlier: Fault, later: Fault) -> None:
    """Two faults of one node, in the order of their moments."""
    both = f"fault {earlier},{later}: node {earlier.rank}"
    if earlier.moment == later.moment:
        raise SpecError(f"{both} has two faults at the same moment; give one of them another")
    if earlier.act == later.act == Act.JOIN:
        raise SpecError(f"{both} joins twice; it is there after the first time")
    if earlier.moment.clock != later.moment.clock:
        return
    if later.act == Act.JOIN:
        raise SpecError(f"{both} has a fault before it joins")
    if earlier.ends_for_good:
        raise SpecError(
            f"{both} was killed for good; give the kill a duration, such as {earlier}/10s, after"
            " which it comes back"
        )
    if earlier.moment.clock == Clock.SECONDS and earlier.act in (later.act, Act.KILL):
        ends_s = earlier.moment.at + (earlier.lasts_s or 0.0)
        if (earlier.lasts_s is None and earlier.act != Act.RESTART) or later.moment.at < ends_s:
            raise SpecError(f"{both} has a fault before the one of {earlier.moment} is over")
