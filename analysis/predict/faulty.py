"""Goodput of a run with faults, predicted: what its schedule of faults leaves of its steps. Pure.

A run that would take T seconds without faults is stretched by the time in which its workers stand
still or are slow. At any moment some faults are active; the run's speed is then

    0                     where workers wait for one that is frozen or cut off, or form a new group
    step / step'          where a link or a node is slow: step' is simulated with it
    the mean of workers   without a barrier: one that is away takes its own share of steps only,
                          but for the time in which the others form a new group

and it ends when speed x time is T. With --on-failure continue workers wait for one that is away for
as long as the host takes to notice (NOTICE_S for one that was killed, GRACE_S for one that is
silent) and to form a new group (REFORM_S); one that comes back costs them REFORM_S again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from cluster.spec.exchange.strategies import facts_of
from cluster.spec.experiment import Experiment
from cluster.spec.faults.checks import CONTINUE
from cluster.spec.faults.fault import Act, Clock, Fault
from cluster.spec.links import parse_cores, parse_links, write_by_rank

GRACE_S = 5.0
"""On the host's clock, as in cluster/observe/liveness.py."""
NOTICE_S, REFORM_S = 0.12, 0.21
"""On the host's clock: until a killed worker is noticed, and from then to the first step of the new
group. Medians of 60 kills (0.02 to 0.35 s, and 0.16 to 0.96 s) under three strategies, of six
namespace workers on two cores that other work used (tests.campaign.continuing, 2026-11-19)."""
LONGEST = 20.0
"""Times the run without faults: one that does not get on has a goodput below its inverse."""

StepTime = Callable[[Experiment], float]
"""Seconds of a step of an experiment without faults."""


@dataclass(frozen=True)
class Slow:
    """From when to when a run has this speed, of 1; emulated seconds after training began."""

    begin_s: float
    end_s: float
    speed: float


def goodput(experiment: Experiment, steps: int, step_time: StepTime) -> float:
    """Of a run of so many steps: its seconds without faults over those with them."""
    step_s = step_time(_undisturbed(experiment))
    needed_s = steps * step_s
    slow = list(_slow(experiment, step_s, step_time, needed_s * LONGEST))
    now_s, done_s = 0.0, 0.0
    for edge_s in sorted({time for part in slow for time in (part.begin_s, part.end_s)}):
        if edge_s <= now_s:
            continue
        speed = min((p.speed for p in slow if p.begin_s <= now_s < p.end_s), default=1.0)
        if speed and done_s + speed * (edge_s - now_s) >= needed_s:
            return needed_s / (now_s + (needed_s - done_s) / speed)
        done_s += speed * (edge_s - now_s)
        now_s = edge_s
    return needed_s / (now_s + needed_s - done_s)


def _undisturbed(experiment: Experiment) -> Experiment:
    return replace(experiment, fault=None, storm=None, on_failure="stop")


def _slow(
    experiment: Experiment, step_s: float, step_time: StepTime, until_s: float
) -> Iterator[Slow]:
    for fault in experiment.faults():
        begin_s = _begin_s(fault, experiment, step_s)
        if begin_s > until_s:
            return  # a storm goes on for ever
        end_s = begin_s + (until_s if fault.lasts_s is None else fault.lasts_s)
        if fault.act in (Act.THROTTLE, Act.CPU):
            slower_s = step_time(_slowed(experiment, fault))
            yield Slow(begin_s, end_s, _shared(experiment, step_s / slower_s))
        else:
            yield from _away(experiment, fault, begin_s, end_s)


def _begin_s(fault: Fault, experiment: Experiment, step_s: float) -> float:
    """At steps and exchanges as if nothing had happened before."""
    if fault.moment.clock == Clock.SECONDS:
        return fault.moment.at
    steps = fault.moment.at * (
        experiment.local_steps if fault.moment.clock == Clock.EXCHANGE else 1
    )
    return (steps - 1) * step_s


def _slowed(experiment: Experiment, fault: Fault) -> Experiment:
    """The run as it is while this fault lasts."""
    run = _undisturbed(experiment)
    if fault.rate_bit is not None:
        links = parse_links(run.bottleneck) if run.bottleneck else {}
        own = replace(run.links[fault.rank], rate_bit=fault.rate_bit, received_bit=None)
        return replace(run, bottleneck=write_by_rank({**links, fault.rank: own}))
    cores = parse_cores(run.straggler) if run.straggler else {}
    return replace(run, straggler=write_by_rank({**cores, fault.rank: fault.cores}))


def _shared(experiment: Experiment, speed: float) -> float:
    """Without a barrier the others go on at full speed."""
    workers = experiment.workers
    if not facts_of(experiment.strategy).unpaced:
        return min(1.0, speed)
    return (workers - 1 + min(1.0, speed)) / workers


def _away(experiment: Experiment, fault: Fault, begin_s: float, end_s: float) -> Iterator[Slow]:
    """A worker is killed, frozen or cut off, or joins."""
    slowdown, continues = experiment.slowdown, experiment.on_failure == CONTINUE
    reform_s = REFORM_S / slowdown
    if fault.act in (Act.JOIN, Act.RESTART):
        notice_s = 0.0 if fault.act == Act.JOIN else NOTICE_S / slowdown
        yield Slow(begin_s, begin_s + notice_s + 2 * reform_s, 0.0)
        return
    unpaced = facts_of(experiment.strategy).unpaced
    if unpaced:
        yield Slow(begin_s, end_s, _shared(experiment, 0.0))
    notice_s = (NOTICE_S if fault.act == Act.KILL else GRACE_S) / slowdown
    if not continues or notice_s >= end_s - begin_s:
        if not unpaced:
            yield Slow(begin_s, end_s, 0.0)
        return
    still_s = notice_s if unpaced else 0.0
    yield Slow(begin_s + still_s, begin_s + notice_s + reform_s, 0.0)
    if fault.lasts_s is not None:
        yield Slow(end_s, end_s + reform_s, 0.0)
