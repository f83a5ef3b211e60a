"""Which link is enough: the rates at which workers compute for a given share of a step. Pure.

Utilisation is the share of a step in which a worker computes. A composition is a strategy with its
local steps and codec. It is simulated at rates from 100 kbit/s to 10 Tbit/s, a third apart; between
two of them what a round adds to computing is linear in 1/rate, as it is for bytes over links.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from analysis.predict.forecast import Cluster, forecast
from analysis.predict.simulation.nodes import Costs
from cluster.spec.links import Link

UTILISATIONS = (0.5, 0.75, 0.9, 0.95)
LOWEST, DECADES, IN_A_DECADE = 5, 8, 8
RATES_BIT = tuple(10 ** (LOWEST + step / IN_A_DECADE) for step in range(DECADES * IN_A_DECADE + 1))
PAYS = 0.05
"""A codec pays where it makes a step shorter by more than this share."""


@dataclass(frozen=True)
class Need:
    """What a composition asks of its links; `cluster` has it, and any link."""

    cluster: Cluster
    costs: Costs
    steps_per_round: float | None = None
    """Between two exchanges on average, where an epoch ends with a shorter round; None: the
    cluster's local steps."""

    @property
    def label(self) -> str:
        asked = self.cluster
        local = f", {asked.local_steps} local steps" if asked.local_steps > 1 else ""
        codec = f", {asked.compress}" if asked.compress != "none" else ""
        return f"{asked.strategy}{local}{codec}"

    def exchange_s(self, rate_bit: float) -> float:
        inside = min(max(rate_bit, RATES_BIT[0]), RATES_BIT[-1])
        step = IN_A_DECADE * (math.log10(inside) - LOWEST)
        left = min(int(step), len(RATES_BIT) - 2)
        low, high = RATES_BIT[left], RATES_BIT[left + 1]
        share = (1 / inside - 1 / high) / (1 / low - 1 / high)
        return share * self._simulated_s(low) + (1 - share) * self._simulated_s(high)

    def _simulated_s(self, rate_bit: float) -> float:
        delay_s = self.cluster.link.delay_s if self.cluster.link else 0.0
        at = replace(self.cluster, link=Link(round(rate_bit), delay_s))
        return forecast(at, self.costs).exchange_s

    def step_s(self, rate_bit: float) -> float:
        steps = self.steps_per_round or self.cluster.local_steps
        return self.cluster.compute_s + self.exchange_s(rate_bit) / steps

    def utilisation(self, rate_bit: float) -> float:
        return self.cluster.compute_s / self.step_s(rate_bit)

    def rate_bit(self, utilisation: float) -> float | None:
        """The least rate for such a utilisation; None where the host's costs alone prevent it."""
        return least(lambda rate: self.utilisation(rate) >= utilisation)

    def pays_below_bit(self, plain: Self) -> float | None:
        """The rate below which its codec makes a step shorter than without; None: at no rate."""

        def does_not_pay(rate: float) -> bool:
            return plain.step_s(rate) <= (1 + PAYS) * self.step_s(rate)

        found = least(does_not_pay)
        return None if found is not None and found <= RATES_BIT[0] else found or RATES_BIT[-1]


def least(holds: Callable[[float], bool]) -> float | None:
    """The least rate at which something holds that holds at all higher ones; None: at none."""
    low, high = RATES_BIT[0], RATES_BIT[-1]
    if not holds(high):
        return None
    if holds(low):
        return low
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def best_first(needs: Sequence[Need], rate_bit: float) -> list[Need]:
    return sorted(needs, key=lambda need: need.step_s(rate_bit))
