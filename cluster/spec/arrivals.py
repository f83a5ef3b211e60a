"""The order in which workers arrive at an exchange, who is last, and why. Pure.

A worker is ready to exchange when it has computed. How much later it is than the median worker
comes from how much later its step began, and how much longer it computed; the larger part names the
cause:

    computing   it computed longer
    core        the same, since others had the CPU core for most of that; its own limit is not meant
    link        its step began later: it had come last to the exchange before, too, and yet that
                took it longer than others. The slow link is its own or, in a ring, its neighbour's
    another     the same, but it had not come last: it had waited for another

What all workers share cancels out: an equalised step time shows none of this.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from cluster.spec.documents.events import Step

COMPUTING, CORE, LINK, ANOTHER = "computing", "core", "link", "another"
WORDS = {
    COMPUTING: "computing",
    CORE: "waiting for a core",
    LINK: "the exchange before took it longer (a slow link)",
    ANOTHER: "waiting for another",
}
NOTED_SHARE, NOTED_S = 0.05, 0.002
"""A worker is late from this share of a step on, and from this many seconds."""


@dataclass(frozen=True)
class Arrivals:
    """One exchange."""

    order: tuple[int, ...]
    """Ranks, the first to arrive first."""
    late_s: float
    """How much later than the median worker the last one was; wall time."""
    cause: str | None
    """None where nobody was late."""

    @property
    def last(self) -> int:
        return self.order[-1]


def arrivals(steps: Mapping[int, Step], before: "Arrivals | None" = None) -> Arrivals | None:
    """By rank, the step that ends in the exchange; None where fewer than two tell.

    `before` is the exchange before this one.
    """
    ready = {rank: step.ready_t for rank, step in steps.items() if step.ready_t is not None}
    if len(ready) < 2:
        return None
    order = tuple(sorted(ready, key=lambda rank: ready[rank]))
    last, others = order[-1], order[:-1]
    late_s = ready[last] - median(ready[rank] for rank in others)
    longest_s = max(step.step_s for step in steps.values())
    if late_s < max(NOTED_S, NOTED_SHARE * longest_s):
        return Arrivals(order, late_s, None)
    computed = {rank: _computed_s(step) for rank, step in steps.items()}
    longer_s = computed[last] - median(computed[rank] for rank in others)
    if longer_s >= late_s / 2:
        waited = {rank: _waited_s(step) for rank, step in steps.items()}
        waited_s = waited[last] - median(waited[rank] for rank in others)
        return Arrivals(order, late_s, CORE if waited_s >= longer_s / 2 else COMPUTING)
    was_last = before is None or before.last == last
    return Arrivals(order, late_s, LINK if was_last else ANOTHER)


def _computed_s(step: Step) -> float:
    """From its begin until it was ready."""
    assert step.ready_t is not None
    return step.ready_t - (step.t - step.step_s)


def _waited_s(step: Step) -> float:
    """For a core that others had."""
    return max(0.0, (step.wait_s or 0.0) - (step.throttled_s or 0.0))
