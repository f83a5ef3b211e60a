"""What measured runs show of a prediction: a cluster as a person asks for it, its step, its bytes.

Computing times are given: of a model with emulated compute the time in its name, of a real one what
a worker's step took besides its exchange, and what each straggler's did, since the cores of a
virtual machine are not equally fast.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from analysis.predict.cluster_links import links_of
from analysis.predict.forecast import Cluster
from analysis.tables.checks import read_checked
from cluster.spec import synthetic
from cluster.spec.documents.event_reader import most_bytes, read_events
from cluster.spec.documents.events import Schedule
from cluster.spec.documents.run_folder import RunFolder, node_name
from cluster.spec.documents.summary import NO_CONCLUSION, Summary
from cluster.spec.exchange.codecs import FLOAT_BYTES, parse_codec
from cluster.spec.exchange.strategies import facts_of
from cluster.spec.experiment import Experiment
from cluster.spec.own_code import is_own
from cluster.spec.schedules.messages import boundary_bytes
from cluster.spec.schedules.recorded import RecordedSchedule

T = TypeVar("T")
MOST_MESSAGES, MOST_STEPS = 20_000, 1_000
"""Of a recorded schedule, of all of its rounds and of one."""


@dataclass(frozen=True)
class Observation:
    cluster: Cluster
    step_s: float
    exchange_s: float | None
    """Exposed communication of a round; None where computing hides it or stragglers wait."""
    sent_bytes: float
    """Payload and framing, per worker and round, without what TCP sent again, and without the
    barriers of phase boundaries."""
    run: str = ""


def observe(folder: RunFolder) -> Observation | None:
    """What a completed run shows; None where predictions do not cover it.

    They are those of CPUs and eth0, and of torch.distributed. A damaged run, which the tables do
    not take, is None too, and so is one on a contended host.
    """
    try:
        summary = read_checked(folder)
        experiment = Experiment.from_json(summary.spec)
        if summary.status != "completed" or not is_covered(experiment):
            return None
        if summary.fidelity is not None and summary.fidelity.verdict in NO_CONCLUSION:
            return None
        cluster = cluster_of(summary, experiment, folder.read_environment().cores)
        if is_own(experiment.strategy):
            recorded = _recorded_schedule(folder, experiment)
            cluster = replace(cluster, recorded=recorded, bucket_bytes=())
        return _observation(summary, experiment, cluster)
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
        return None


def _observation(summary: Summary, run: Experiment, cluster: Cluster) -> Observation:
    per_step, seconds = known(summary.per_step), known(summary.seconds)
    sent = known(per_step.sent_mean_bytes) - (per_step.retransmitted_mean_bytes or 0.0)
    exchange_s = None
    if seconds.exposed_communication_median_s is not None and not cluster.stragglers:
        exchange_s = seconds.exposed_communication_median_s * cluster.local_steps
    boundaries = run.epochs * boundary_bytes(run.nodes)
    return Observation(
        cluster,
        step_s=known(seconds.step_median_s),
        exchange_s=exchange_s,
        sent_bytes=(sent * known(summary.steps) - boundaries) / known(summary.rounds),
        run=f"{summary.session}/{summary.run}",
    )


def _recorded_schedule(folder: RunFolder, run: Experiment) -> RecordedSchedule:
    """Of a strategy of the user's own; ValueError where it says nothing of what it sends when."""
    if run.bucket_mb is not None or run.overlap:
        raise ValueError("its messages are those of all buckets together")
    events = read_events(folder.events(0), most_bytes(run))
    found = known(next((event for event in events if isinstance(event, Schedule)), None))
    longest = max(map(len, found.rounds), default=0)
    steps = max((message.step for messages in found.rounds for message in messages), default=0)
    if longest * len(found.order) > MOST_MESSAGES or steps > MOST_STEPS:
        raise ValueError("more than can be simulated in a moment")
    return RecordedSchedule.of(found.rounds, found.order, run.nodes)


def cluster_of(summary: Summary, run: Experiment, cores: int | None) -> Cluster:
    """ValueError where a number that it needs was not recorded."""
    asleep = run.model.startswith(synthetic.PREFIX)
    compute_s = _compute_s(summary, run)
    limits = {rank: cpus for rank, cpus in run.cpus_by_rank.items() if cpus < 1}
    bursts = {shaped.node: shaped.burst_bytes or 0 for shaped in summary.links}
    parameters = _parameters(summary, run)
    if summary.bucket_bytes and not min(summary.bucket_bytes):
        raise ValueError("a bucket without bytes")
    if parse_codec(run.compress).rank and not summary.bucket_bytes:
        raise ValueError("its bytes depend on shapes, which are not recorded")
    return Cluster(
        strategy=run.strategy,
        workers=run.workers,
        model_bytes=parameters * FLOAT_BYTES,
        **links_of(run),
        compute_s=compute_s,
        stragglers=() if asleep else tuple(_shares(summary, limits, compute_s)),
        compress=run.compress,
        passes=run.passes,
        schedule=run.schedule,
        seed=run.seed,
        local_steps=run.local_steps,
        overlap=run.overlap,
        bucket_bytes=tuple(summary.bucket_bytes),
        burst_bytes=tuple(float(bursts.get(node_name(rank), 0)) for rank in range(run.nodes)),
        cores=run.nodes if run.slowdown != 1 else cores,  # dilated: a core for each
        rounds=known(summary.rounds),
    )


def _parameters(summary: Summary, run: Experiment) -> int:
    if summary.training is not None and summary.training.parameters is not None:
        return summary.training.parameters
    if run.compress != "none":
        raise ValueError("not recorded")
    return known(summary.model_bytes) // FLOAT_BYTES


def _compute_s(summary: Summary, run: Experiment) -> float:
    """Of a worker with a whole core, or with as much of one as there is."""
    if run.model.startswith(synthetic.PREFIX):
        model = synthetic.parse(run.model)
        return model.forward_s + model.backward_s
    measured = _without_exchange_s(summary)
    return min(measured.values()) if measured else known(known(summary.seconds).compute_median_s)


def _shares(
    summary: Summary, limits: dict[int, float], compute_s: float
) -> Iterator[tuple[int, float]]:
    """Of a core, by straggler: as its computing took, or as asked for where that is not known."""
    measured = _without_exchange_s(summary)
    for rank, asked in limits.items():
        yield rank, compute_s / measured[rank] if rank in measured else asked


def _without_exchange_s(summary: Summary) -> dict[int, float]:
    """What a step takes besides its exchange, by rank: computing, updating, reading samples."""
    return {
        node.rank: node.step_median_s - node.exposed_communication_median_s
        for node in known(summary.seconds).by_node
        if node.step_median_s is not None
        and node.exposed_communication_median_s is not None
        and node.step_median_s > node.exposed_communication_median_s
    }


def known(value: T | None) -> T:
    if value is None:
        raise ValueError("not recorded")
    return value


def observe_all(folders: Iterable[RunFolder]) -> list[Observation]:
    return [run for folder in folders if (run := observe(folder)) is not None]


def is_covered(run: Experiment) -> bool:
    """Whether its steps can be compared with simulated ones: all rounds are equally long."""
    return has_simulation(run) and run.steps_per_epoch % run.local_steps == 0


def has_simulation(run: Experiment) -> bool:
    if run.program is not None or run.gpu or run.launcher != "torch" or run.stream != "none":
        return False
    facts = facts_of(run.strategy)
    if not facts.exchanges or not (facts.has_schedule or is_own(run.strategy)):
        return False
    loss = any(link.loss for link in run.links.values())
    return run.workers > 1 and not loss
