"""What the steps of each node took, and who waited for whom. Standard library only.

All nodes share the host's clock, so that their steps can be laid side by side. A node has arrived at a
round's exchange when it has computed; from then until the last of its group has arrived nothing can be
averaged, and it waits for that last one. What the exchange takes beyond that is moving bytes:

    step  =  computing  +  waiting for the last to arrive  +  moving bytes

Steps come in turns. With local steps only every H-th has an exchange, and in `pairwise` a node may meet a
slow one in every other round, so that half of its steps are short and half are long: a median of those would
fall on either, by chance. So a step is evened out first, over the steps of one turn (the mean from each step
on), and the median is taken of that. Where every step is like the next, a turn is one step, and the median
is the plain one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from analysis.theory.predicted_bytes import resolve
from cluster.spec.experiment import Experiment
from cluster.spec.run_folder import node_name
from cluster.spec.schedules import Partition, cycle_length, groups

Steps = Sequence[dict[str, Any]]
"""One node's step events, in order."""

WARM_UP = 1
"""Steps at the beginning that no figure counts."""

FIGURES = {
    "step_median": "step_s",
    "compute_median": "compute_s",
    "exposed_communication_median": "exchange_s",
}


@dataclass(frozen=True)
class Wait:
    """For one step of one node."""

    seconds: float
    last: int | None
    """The rank that arrived last in its group; None in a step without an exchange."""


def by_node(experiment: Experiment, steps: Sequence[Steps]) -> list[dict[str, Any]]:
    """An entry per node; null where a figure is not known, and for a server, which makes no steps."""
    waited = waits(experiment, steps)
    turn = steps_of_a_turn(experiment)
    entries = []
    for rank in range(experiment.nodes):
        is_worker = rank < experiment.workers
        figures = _figures(steps[rank], waited[rank], turn) if is_worker else _figures((), (), turn)
        role = "worker" if is_worker else "server"
        entries.append({"node": node_name(rank), "rank": rank, "role": role, **figures})
    return entries


def _figures(steps: Steps, waited: Sequence[Wait], turn: int) -> dict[str, float | None]:
    settled, waits_then = steps[WARM_UP:], waited[WARM_UP:]
    return {
        **{f: evened_median([e[n] for e in settled], turn) for f, n in FIGURES.items()},
        "waiting_median": evened_median([wait.seconds for wait in waits_then], turn),
        "waits_mostly_for": _mostly_for(waits_then),
    }


def of_all(experiment: Experiment, steps: Sequence[Steps]) -> dict[str, float | None]:
    """The medians over all workers' steps, evened out worker by worker."""
    turn = steps_of_a_turn(experiment)
    figures: dict[str, float | None] = {}
    for figure, name in FIGURES.items():
        values = [v for one in steps for v in evened([e[name] for e in one[WARM_UP:]], turn)]
        figures[figure] = round(median(values), 6) if values else None
    return figures


def evened_median(values: Iterable[float | None], turn: int) -> float | None:
    means = evened(values, turn)
    return round(median(means), 6) if means else None


def evened(values: Iterable[float | None], turn: int) -> list[float]:
    """The means over `turn` values in a row; over all where there are not so many."""
    known = [value for value in values if value is not None]
    width = min(turn, len(known))
    return [fmean(known[at : at + width]) for at in range(len(known) - width + 1)] if known else []


def steps_of_a_turn(experiment: Experiment) -> int:
    """After so many steps a node has met whom it meets, as often as it does."""
    if experiment.passes is None:
        return experiment.local_steps
    rounds = cycle_length(experiment.workers, experiment.passes, _schedule(experiment))
    return rounds * experiment.local_steps


def waits(experiment: Experiment, steps: Sequence[Steps]) -> list[list[Wait]]:
    """By rank and step, how long a node stood at the exchange before its group's last arrived.

    Nothing where computing and exchanging cannot be told apart; only steps that everybody made.
    """
    if any(e["compute_s"] is None for one in steps for e in one):
        return [[] for _ in steps]
    done = min(len(one) for one in steps)
    waited = [[Wait(0.0, None)] * done for _ in steps]
    for index in range(done):
        for members in _groups(experiment, index):
            arrivals = {rank: _arrival(steps[rank][index]) for rank in members}
            last = max(arrivals, key=lambda rank: arrivals[rank])
            for rank in members:
                seconds = arrivals[last] - arrivals[rank]
                longest = steps[rank][index]["exchange_s"]
                waited[rank][index] = Wait(min(seconds, longest), last)
    return waited


def _arrival(step: dict[str, Any]) -> float:
    """When a node was ready to exchange.

    Where gradients are averaged, the update that follows is part of compute_s, so this is a little late
    and a wait may look longer than it was: never longer than the node's own exchange.
    """
    return float(step["t"] - step["step_s"] + step["data_s"] + step["compute_s"])


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
    round_index = _round(experiment, index)
    if round_index is None:
        return ()
    workers, passes = experiment.workers, experiment.passes
    if passes is None:
        return (tuple(range(workers)),)
    return groups(round_index, workers, passes, _schedule(experiment), experiment.seed)


def _round(experiment: Experiment, index: int) -> int | None:
    """The exchange that ends this step: one every local_steps and one at an epoch's end."""
    if experiment.rounds == 0:
        return None
    epoch, place = divmod(index, experiment.steps_per_epoch)
    since, rest = divmod(place + 1, experiment.local_steps)
    if rest and place + 1 < experiment.steps_per_epoch:
        return None
    return epoch * experiment.rounds_per_epoch + since + (rest > 0) - 1
