"""A storm: a schedule of faults drawn from a seed, the same for every strategy. Pure.

    --storm kills=60s,freezes=240s,seed=7

Kills, freezes and unplugs are three independent Poisson processes; each is given by the mean time
between two faults, in emulated seconds since training began. The victim is drawn from the workers
that are up. Every fault lasts `down`, and a killed worker comes back after it. Where only LEAST_UP
workers are up, a fault is left out.

Nothing but the storm and the number of workers enters the draw, so runs of other strategies, codecs
or links have the same faults at the same seconds; a longer run has those of a shorter one and more.
"""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from cluster.spec.errors import did_you_mean
from cluster.spec.faults.fault import Act, Clock, Fault, Moment
from cluster.spec.quantities import parse_duration, plain

FORM = "kills=60s,freezes=240s,seed=7"
DOWN_S = 10.0
SEED = 1
LEAST_UP = 2
SHORTEST_S = 1.0
LONGEST_S = 10**6
KINDS = {"kills": Act.KILL, "freezes": Act.FREEZE, "unplugs": Act.UNPLUG}
"""Key -> what happens; its value is the mean time between two of them."""
KEYS = (*KINDS, "down", "seed")


@dataclass(frozen=True)
class Storm:
    every_s: dict[Act, float]
    """Mean emulated seconds between two faults of a kind."""
    down_s: float = DOWN_S
    seed: int = SEED

    def faults(self, workers: int) -> Iterator[Fault]:
        """Without end, in the order of their moments."""
        chance = {act: random.Random(f"storm {self.seed} {act}") for act in self.every_s}
        victims = random.Random(f"storm {self.seed} victims")
        due = [(chance[act].expovariate(1 / mean), act) for act, mean in self.every_s.items()]
        heapq.heapify(due)
        up_again_s = [0.0] * workers
        while True:
            at_s, act = heapq.heappop(due)
            heapq.heappush(due, (at_s + chance[act].expovariate(1 / self.every_s[act]), act))
            at_s = round(at_s, 3)
            up = [rank for rank in range(workers) if up_again_s[rank] <= at_s]
            if len(up) <= LEAST_UP:
                continue
            rank = victims.choice(up)
            up_again_s[rank] = at_s + self.down_s
            yield Fault(rank, act, Moment(Clock.SECONDS, at_s), self.down_s)

    def __str__(self) -> str:
        """As a person would type it; the same storm is always the same text."""
        rates = [f"{key}={_seconds(self.every_s[KINDS[key]])}" for key in self._given()]
        down = [] if self.down_s == DOWN_S else [f"down={_seconds(self.down_s)}"]
        return ",".join([*rates, *down, f"seed={self.seed}"])

    def _given(self) -> list[str]:
        return [key for key, act in KINDS.items() if act in self.every_s]


def parse_storm(text: str) -> Storm:
    """ValueError for what is no storm."""
    given: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in KEYS or not equals or not value:
            hint = did_you_mean(key, KEYS)
            raise ValueError(f"{part.strip()!r} is not KEY=VALUE of {', '.join(KEYS)}{hint}")
        if key in given:
            raise ValueError(f"{key} is given twice")
        given[key] = value
    every_s = {KINDS[key]: _parse_seconds(key, given[key]) for key in given if key in KINDS}
    if not every_s:
        raise ValueError(f"there is no fault in it: give {', '.join(KINDS)}, as in {FORM}")
    seed = given.get("seed", str(SEED))
    if not (seed.isascii() and seed.isdigit() and len(seed) < 10):
        raise ValueError(f"seed must be a whole number below 10^9, not {seed!r}")
    down_s = _parse_seconds("down", given["down"]) if "down" in given else DOWN_S
    return Storm(every_s, down_s, int(seed))


def _parse_seconds(key: str, text: str) -> float:
    seconds = parse_duration(text, key, LONGEST_S)
    if seconds < SHORTEST_S:
        raise ValueError(f"{key} must be at least {SHORTEST_S:g}s, not {text}")
    return seconds


def _seconds(seconds: float) -> str:
    return f"{plain(Decimal(str(seconds)))}s"
