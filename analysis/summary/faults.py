"""What faults cost a run: when they were noticed, when it went on, what was lost. Pure.

Events are in wall time; what is reported is emulated.
"""

import itertools
from collections.abc import Iterable, Sequence
from statistics import fmean, median

from analysis.summary.node_log import NodeLog
from cluster.spec.documents.event import Event
from cluster.spec.documents.events import Phase, Step
from cluster.spec.documents.fault_events import FaultBegun, FaultOver, Member, Noticed
from cluster.spec.documents.faults import FaultOutcome, Faults
from cluster.spec.documents.run_folder import node_name
from cluster.spec.experiment import Experiment
from cluster.spec.faults.fault import parse_faults


def describe(
    experiment: Experiment, workers: Sequence[NodeLog], host: Sequence[Event]
) -> Faults | None:
    """By rank, what workers wrote; and what the host did and found. None where nothing happened."""
    has_faults = experiment.fault is not None or experiment.storm is not None
    began_t = _began_t(workers)
    if began_t is None or not (has_faults or any(isinstance(e, FaultBegun) for e in host)):
        return None
    steps = [log.steps for log in workers]
    begun = sorted((e for e in host if isinstance(e, FaultBegun)), key=lambda event: event.t)
    outcomes = [_outcome(event, begun, host, steps, began_t, experiment) for event in begun]
    train_s = _train_s(workers, began_t)
    quiet_s = _undisturbed_step_s(steps, [(e.t, _until(e, host, steps)) for e in begun])
    committed = _committed(steps)
    repeated = [step for of_worker in steps for step in _repeated(of_worker)]
    shares = _shares(steps) if experiment.is_unpaced else _participation(steps)
    fits = train_s / quiet_s if train_s and quiet_s else None
    members = [event for log in workers for event in log.all(Member)]
    return Faults(
        faults=outcomes,
        never=_never(experiment, begun),
        generations=1 + max((event.generation for event in members), default=0),
        committed_steps=committed,
        repeated_steps=len(repeated),
        repeated_samples=sum(_samples(step, experiment) for step in repeated),
        participation=round(fmean(shares), 6) if shares else None,
        participation_least=min(shares, default=None),
        train_s=_seconds(train_s, experiment),
        undisturbed_step_s=_seconds(quiet_s, experiment),
        goodput=round(committed / fits, 6) if fits and committed is not None else None,
        recovered_bytes=sum(event.recovered_bytes for event in members),
    )


def _began_t(workers: Iterable[NodeLog]) -> float | None:
    return min((e.t for log in workers for e in log.all(Phase) if e.phase == "train"), default=None)


def _outcome(
    event: FaultBegun,
    begun: Sequence[FaultBegun],
    host: Sequence[Event],
    steps: Sequence[Sequence[Step]],
    began_t: float,
    experiment: Experiment,
) -> FaultOutcome:
    def after(t: float | None) -> float | None:
        return None if t is None else _seconds(max(0.0, t - event.t), experiment)

    same_node = [other.t for other in begun if other.node == event.node and other.t > event.t]
    until_t = min(same_node, default=float("inf"))
    noticed = [e.t for e in host if isinstance(e, Noticed) and e.node == event.node]
    over_t = _over_t(event, host)
    by_node = {node_name(rank): of_worker for rank, of_worker in enumerate(steps)}
    others = [step for node, of in by_node.items() if node != event.node for step in of]
    own = by_node.get(event.node, ())
    return FaultOutcome(
        fault=event.fault,
        node=event.node,
        began_s=_seconds(max(0.0, event.t - began_t), experiment) or 0.0,
        step=event.step,
        exchange=event.exchange,
        failure=event.failure,
        noticed_s=after(_first(t for t in noticed if event.t <= t < until_t)),
        resumed_s=after(_first(step.t for step in others if step.t - step.step_s >= event.t)),
        over_s=after(over_t),
        back_s=None
        if over_t is None
        else after(_first(step.t for step in own if step.t >= over_t)),
    )


def _over_t(event: FaultBegun, host: Iterable[Event]) -> float | None:
    over = (e.t for e in host if isinstance(e, FaultOver) and e.number == event.number)
    return _first(t for t in over if t >= event.t)


def _until(event: FaultBegun, host: Sequence[Event], steps: Sequence[Sequence[Step]]) -> float:
    """When its effects are over: the node has ended a step again, or the others have."""
    over_t = _over_t(event, host)
    rank = int(event.node.removeprefix("node"))
    own = steps[rank] if rank < len(steps) else ()
    back = None if over_t is None else _first(s.t for s in own if s.t >= over_t)
    others = (s for other, of in enumerate(steps) if other != rank for s in of)
    resumed = _first(s.t for s in others if s.t - s.step_s >= event.t)
    return max((t for t in (back, resumed, over_t) if t is not None), default=float("inf"))


def _first(times: Iterable[float]) -> float | None:
    return min(times, default=None)


def _train_s(workers: Sequence[NodeLog], began_t: float) -> float | None:
    """To the last step, without the evaluations before it, on the node that made most of them."""
    last_t = max((step.t for log in workers for step in log.steps), default=None)
    if last_t is None:
        return None
    evaluated = max(
        sum(end.t - start.t for start, end in log.spans("evaluate") if start.t < last_t)
        for log in workers
    )
    return max(0.0, last_t - began_t - evaluated)


def _undisturbed_step_s(
    steps: Sequence[Sequence[Step]], disturbed: Sequence[tuple[float, float]]
) -> float | None:
    """From the end of a step to the end of the next one of the same epoch, while nothing lasts."""
    quiet = [
        after.t - before.t
        for of_worker in steps
        for before, after in itertools.pairwise(of_worker)
        if after.step == before.step + 1 and after.epoch == before.epoch
        if not any(begin < after.t and before.t < end for begin, end in disturbed)
    ]
    return median(quiet) if quiet else None


def _committed(steps: Sequence[Sequence[Step]]) -> float | None:
    made = [len({step.step for step in of_worker}) for of_worker in steps]
    if not any(made):
        return None
    is_in_step = all(step.of_all is None for of_worker in steps for step in of_worker[:1])
    furthest = max(step.step for of_worker in steps for step in of_worker)
    return float(furthest) if is_in_step else fmean(made)


def _repeated(steps: Sequence[Step]) -> list[Step]:
    """Steps of one worker that it had made before."""
    found, furthest = [], 0
    for step in steps:
        if step.step <= furthest:
            found.append(step)
        furthest = max(furthest, step.step)
    return found


def _participation(steps: Sequence[Sequence[Step]]) -> list[float]:
    """By step, the share of the workers that made it."""
    made = [{step.step for step in of_worker} for of_worker in steps]
    furthest = max((max(of_worker, default=0) for of_worker in made), default=0)
    return [sum(n in of for of in made) / len(made) for n in range(1, furthest + 1)]


def _shares(steps: Sequence[Sequence[Step]]) -> list[float]:
    """Without a barrier: each worker's steps, over those of the worker that made most."""
    most = max(map(len, steps), default=0)
    return [len(of_worker) / most for of_worker in steps] if most else []


def _never(experiment: Experiment, begun: Sequence[FaultBegun]) -> list[str]:
    if experiment.fault is None:
        return []
    happened = {event.fault for event in begun}
    return [str(f) for f in parse_faults(experiment.fault) if str(f) not in happened]


def _samples(step: Step, experiment: Experiment) -> int:
    return experiment.batch_size if step.samples is None else step.samples


def _seconds(wall_s: float | None, experiment: Experiment) -> float | None:
    return None if wall_s is None else round(wall_s / experiment.slowdown, 6)
