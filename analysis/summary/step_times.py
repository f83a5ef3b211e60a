"""Durations of the steps of each node, and who waited for whom. Standard library only.

All nodes share the host's clock, so that their steps can be compared. A node arrives at a round's
exchange when it has computed; until the last of its group arrives nothing can be averaged, and it
waits for that last node. The rest of the exchange is moving bytes:

    step  =  computing  +  waiting for the last to arrive  +  moving bytes

Steps are periodic. With local steps only every H-th has an exchange, and in `pairwise` a node may
meet a slow one in every other round, so that half of its steps are short and half are long: a
median of those would be either, by chance. So steps are averaged over a period first (a moving
mean), and the median is taken of that. Where all steps are alike the period is one step, and the
median is the plain one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean, median

from cluster.spec.documents.events import Step
from cluster.spec.documents.run_folder import node_name
from cluster.spec.documents.summary import NodeSeconds
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.consensus import resolve
from cluster.spec.schedules.pairwise import Partition, cycle_length, groups

Steps = Sequence[Step]
"""One node's steps, in order."""

WARM_UP = 1
"""Steps at the beginning that no median counts."""
MEDIANS = {
    "step_median_s": "step_s",
    "compute_median_s": "compute_s",
    "exposed_communication_median_s": "exchange_s",
}
"""Key of a summary -> what of a step it is the median of."""


@dataclass(frozen=True)
class Wait:
    """One node's waiting in one step."""

    seconds: float
    last: int | None
    """The rank that arrived last in its group; None in a step without an exchange."""


def by_node(experiment: Experiment, steps: Sequence[Steps]) -> list[NodeSeconds]:
    """Every node's medians; unknown for a server, which makes no steps."""
    waited = waits(experiment, steps)
    period = steps_of_a_period(experiment)
    found = []
    for rank in range(experiment.nodes):
        is_worker = rank < experiment.workers
        waits_then = waited[rank][WARM_UP:] if is_worker else ()
        found.append(
            NodeSeconds(
                node=node_name(rank),
                rank=rank,
                role="worker" if is_worker else "server",
                **medians(experiment, [steps[rank]] if is_worker else []),
                waiting_median_s=periodic_median(period, [wait.seconds for wait in waits_then]),
                waits_mostly_for=_mostly_for(waits_then),
            )
        )
    return found


def medians(experiment: Experiment, steps: Sequence[Steps]) -> dict[str, float | None]:
    """Over these workers' steps, averaged over a period worker by worker."""
    period, counted = steps_of_a_period(experiment), [each[WARM_UP:] for each in steps]
    return {
        key: periodic_median(period, *([getattr(step, name) for step in each] for each in counted))
        for key, name in MEDIANS.items()
    }


def periodic_median(period: int, *by_worker: Iterable[float | None]) -> float | None:
    means = [mean for values in by_worker for mean in periodic_means(values, period)]
    return round(median(means), 6) if means else None


def periodic_means(values: Iterable[float | None], period: int) -> list[float]:
    """The means over `period` values in a row; over all where there are not so many."""
    known = [value for value in values if value is not None]
    width = min(period, len(known))
    return [fmean(known[at : at + width]) for at in range(len(known) - width + 1)] if known else []


def steps_of_a_period(experiment: Experiment) -> int:
    """After so many steps a node has exchanged with all its partners, and begins again."""
    if experiment.passes is None:
        return experiment.local_steps
    rounds = cycle_length(experiment.workers, experiment.passes, _schedule(experiment))
    return rounds * experiment.local_steps


def waits(experiment: Experiment, steps: Sequence[Steps]) -> list[list[Wait]]:
    """By rank and step, how long a node waited at the exchange for the last of its group.

    Empty where computing and exchanging cannot be told apart; only steps that all workers made,
    until one was lost or came back.
    """
    if any(step.compute_s is None for of_worker in steps for step in of_worker):
        return [[] for _ in steps]
    if experiment.is_unpaced:
        return [[] for _ in steps]  # a round has no last one to wait for
    done = _common(steps)
    waited = [[Wait(0.0, None)] * done for _ in steps]
    for index in range(done):
        for members in _groups(experiment, index):
            arrivals = {rank: _arrival(steps[rank][index]) for rank in members}
            last = max(arrivals, key=lambda rank: arrivals[rank])
            for rank in members:
                seconds = arrivals[last] - arrivals[rank]
                longest = steps[rank][index].exchange_s or 0.0
                waited[rank][index] = Wait(min(seconds, longest), last)
    return waited


def _common(steps: Sequence[Steps]) -> int:
    """How many first steps all workers made together."""
    together = zip(*([step.step for step in of_worker] for of_worker in steps), strict=False)
    return sum(1 for _ in takewhile(lambda numbers: len(set(numbers)) == 1, together))


def _arrival(step: Step) -> float:
    """When a node was ready to exchange.

    Where gradients are averaged, the update that follows is part of compute_s, so this is a little
    late and a wait may look longer than it was: never longer than the node's own exchange.
    """
    return step.t - step.step_s + step.data_s + (step.compute_s or 0.0)


def _mostly_for(waited: Sequence[Wait]) -> int | None:
    """The rank that cost a node the most waiting; None where it never waited."""
    seconds: dict[int, float] = {}
    for wait in waited:
        if wait.last is not None and wait.seconds > 0:
            seconds[wait.last] = seconds.get(wait.last, 0) + wait.seconds
    return max(seconds, key=lambda rank: seconds[rank]) if seconds else None


def _schedule(experiment: Experiment) -> str:
    assert experiment.passes is not None
    return resolve(experiment.workers, experiment.passes, experiment.schedule, experiment.seed)


def _groups(experiment: Experiment, index: int) -> Partition:
    """Who exchanges with whom after this step, counted from 0; nobody where no exchange is due."""
    done = rounds_of(experiment, index)
    if rounds_of(experiment, index + 1) == done:
        return ()
    done += experiment.rounds_before
    workers, passes = experiment.workers, experiment.passes
    if passes is None:
        return (tuple(range(workers)),)
    return groups(done, workers, passes, _schedule(experiment), experiment.seed)


def rounds_of(experiment: Experiment, steps: int) -> int:
    """Exchanges in so many steps: one every local_steps and one at an epoch's end."""
    if not experiment.rounds:
        return 0
    epochs, rest = divmod(steps, experiment.steps_per_epoch)
    return epochs * experiment.rounds_per_epoch + rest // experiment.local_steps
