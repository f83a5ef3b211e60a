"""Faults as text and as values: RANK:ACT[=VALUE]@MOMENT[/DURATION], such as 2:kill@step40. Pure.

    kill       its training process is killed; with a duration it comes back after that
    restart    its training process is killed, and starts again at once with what its node kept
    freeze     its processes are stopped, as by a virtual machine that is paused
    unplug     its link loses its carrier
    throttle   its link has another rate: 2:throttle=5mbit@30s/20s
    cpu        its processes have another number of cores: 2:cpu=0.1@30s/20s
    join       it is not there before that moment

A moment is a step (at its begin), an exchange (while its bytes move) or a time: emulated seconds
since training began. A duration is in emulated seconds too; without one a fault lasts until the run
ends.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from cluster.spec.errors import did_you_mean
from cluster.spec.links import HIGHEST_RATE, Link
from cluster.spec.quantities import parse_core_count, parse_duration, parse_rate, plain

FORM = (
    "RANK:ACT[=VALUE]@MOMENT[/DURATION], such as 2:kill@exchange40, 2:freeze@30s/10s or"
    " 2:throttle=5mbit@step40/20s"
)
LONGEST_S = 10**6
_TEXT = re.compile(
    r"(?P<rank>\d{1,9}):(?P<act>[a-z]+)(=(?P<value>[^@/]+))?@(?P<moment>[^/]+)(/(?P<lasts>[^/]+))?"
)
_COUNTED = re.compile(r"(?P<unit>step|exchange)(?P<count>\d{1,12})")


class Act(StrEnum):
    """What happens to a node."""

    KILL = "kill"
    RESTART = "restart"
    FREEZE = "freeze"
    UNPLUG = "unplug"
    THROTTLE = "throttle"
    CPU = "cpu"
    JOIN = "join"


LASTING = (Act.KILL, Act.FREEZE, Act.UNPLUG, Act.THROTTLE, Act.CPU)
"""Acts that may end before the run does."""
VALUES = {Act.THROTTLE: "a rate, such as throttle=5mbit", Act.CPU: "cores, such as cpu=0.1"}
"""Acts with a value, and which."""


class Clock(StrEnum):
    """By what a moment is counted."""

    STEP = "step"
    EXCHANGE = "exchange"
    SECONDS = "s"


@dataclass(frozen=True, order=True)
class Moment:
    clock: Clock
    at: float
    """Number of the step or exchange, from 1, or emulated seconds since training began."""

    def __str__(self) -> str:
        number = plain(Decimal(str(self.at)))
        return f"{number}s" if self.clock == Clock.SECONDS else f"{self.clock}{number}"


@dataclass(frozen=True)
class Fault:
    """One fault of one node."""

    rank: int
    act: Act
    moment: Moment
    lasts_s: float | None = None
    """Emulated seconds; None until the run ends."""
    rate_bit: int | None = None
    """Of a throttled link."""
    cores: float | None = None
    """Of a node with less CPU."""

    @property
    def comes_back(self) -> bool:
        """Whether the node is away and returns, so that the others must go on without it."""
        is_killed = self.act == Act.KILL and self.lasts_s is not None
        return is_killed or self.act in (Act.RESTART, Act.JOIN)

    @property
    def ends_for_good(self) -> bool:
        return self.act == Act.KILL and self.lasts_s is None

    def __str__(self) -> str:
        """As a person would type it; the same fault is always the same text."""
        value = "" if self.rate_bit is None else f"={Link(self.rate_bit)}"
        value += "" if self.cores is None else f"={plain(Decimal(str(self.cores)))}"
        lasts = "" if self.lasts_s is None else f"/{plain(Decimal(str(self.lasts_s)))}s"
        return f"{self.rank}:{self.act}{value}@{self.moment}{lasts}"


def parse_faults(text: str) -> tuple[Fault, ...]:
    """FAULT[,FAULT]; in the order of their moments. ValueError for anything else."""
    return in_order(parse_fault(part.strip()) for part in text.split(","))


def in_order(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted(faults, key=lambda fault: (fault.moment, fault.rank)))


def write_faults(faults: Iterable[Fault]) -> str:
    return ",".join(map(str, faults))


def parse_fault(text: str) -> Fault:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no fault: write {FORM}")
    if found["act"] not in list(Act):
        names = list(map(str, Act))
        hint = did_you_mean(found["act"], names)
        raise ValueError(f"{text!r}: there is no {found['act']!r}, but {', '.join(names)}{hint}")
    act, value = Act(found["act"]), found["value"]
    if act in VALUES and value is None:
        raise ValueError(f"{text!r}: {act} needs {VALUES[act]}")
    if act not in VALUES and value is not None:
        raise ValueError(f"{text!r}: {act} takes no value: write {found['rank']}:{act}@...")
    if act not in LASTING and found["lasts"]:
        raise ValueError(f"{text!r}: {act} happens at once and has no duration")
    return Fault(
        rank=int(found["rank"]),
        act=act,
        moment=parse_moment(found["moment"]),
        lasts_s=_parse_lasts(text, found["lasts"]),
        rate_bit=parse_rate(value, HIGHEST_RATE) if act == Act.THROTTLE else None,
        cores=parse_core_count(value) if act == Act.CPU else None,
    )


def parse_moment(text: str) -> Moment:
    if counted := _COUNTED.fullmatch(text):
        if int(counted["count"]) < 1:
            raise ValueError(f"moment {text!r}: steps and exchanges are counted from 1")
        return Moment(Clock(counted["unit"]), int(counted["count"]))
    if text.startswith(tuple(Clock)[:2]):
        raise ValueError(f"moment {text!r} is not understood: write step40, exchange40 or 30s")
    return Moment(Clock.SECONDS, parse_duration(text, "moment", LONGEST_S))


def _parse_lasts(text: str, lasts: str | None) -> float | None:
    if lasts is None:
        return None
    seconds = parse_duration(lasts, "duration", LONGEST_S)
    if seconds == 0:
        raise ValueError(f"{text!r}: a fault of 0 s is none; leave out its duration, or the fault")
    return seconds
