"""What the host does to a node so that a fault happens, and to undo it. Pure."""

from dataclasses import dataclass, replace
from enum import StrEnum

from cluster.spec.experiment import Experiment
from cluster.spec.faults.checks import CONTINUE
from cluster.spec.faults.fault import Act, Fault
from cluster.spec.links import Link


class Kind(StrEnum):
    KILL = "kill"
    """End the training process; the node itself stays."""
    KILL_KEPT = "kill-kept"
    """The same where a process between them keeps the worker's state (--on-failure continue)."""
    STOP = "stop"
    """Stop all its processes."""
    RESUME = "resume"
    UNPLUG = "unplug"
    """Take its link's carrier away."""
    PLUG = "plug"
    RATE = "rate"
    """Give its shaped link the rates of `link`."""
    LIMIT = "limit"
    """Give it `cores` of this host, or no limit."""


@dataclass(frozen=True)
class Deed:
    kind: Kind
    rank: int
    link: Link | None = None
    """In emulated time."""
    cores: float | None = None
    """Of this host."""


BEGIN = {
    Act.KILL: Kind.KILL,
    Act.RESTART: Kind.KILL,
    Act.FREEZE: Kind.STOP,
    Act.UNPLUG: Kind.UNPLUG,
}
END = {Act.FREEZE: Kind.RESUME, Act.UNPLUG: Kind.PLUG}


def begin(fault: Fault, experiment: Experiment) -> Deed | None:
    """None for a node that joins: nothing was done to it before."""
    rank = fault.rank
    if fault.rate_bit is not None:
        slow = replace(experiment.links[rank], rate_bit=fault.rate_bit, received_bit=None)
        return Deed(Kind.RATE, rank, link=slow)
    if fault.cores is not None:
        return Deed(Kind.LIMIT, rank, cores=fault.cores / experiment.slowdown)
    kind = BEGIN.get(fault.act)
    if kind == Kind.KILL and experiment.on_failure == CONTINUE:
        kind = Kind.KILL_KEPT
    return None if kind is None else Deed(kind, rank)


def end(fault: Fault, experiment: Experiment) -> Deed | None:
    """None where there is nothing to undo: a process that was killed is started by its node."""
    rank = fault.rank
    if fault.act == Act.THROTTLE:
        return Deed(Kind.RATE, rank, link=experiment.links[rank])
    if fault.act == Act.CPU:
        return Deed(Kind.LIMIT, rank, cores=experiment.host_limits.get(rank))
    return Deed(END[fault.act], rank) if fault.act in END else None
