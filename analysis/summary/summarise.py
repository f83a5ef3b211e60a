"""A run folder -> its summary. Standard library only: the command line uses it.

python3 -m analysis.summary RUN_FOLDER      for a run that nobody watched (command.py)
"""

from collections.abc import Sequence
from dataclasses import replace

from analysis.summary import (
    arrivals,
    control_traffic,
    counters,
    faults,
    fidelity,
    gpu_use,
    program,
    progress,
    traffic,
    training,
    virtual,
)
from analysis.summary.node_log import NodeLog
from analysis.summary.recorded_run import RecordedRun
from analysis.summary.step_times import by_node, medians
from analysis.theory import predicted_bytes as theory
from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.events import Boundary, Phase, Result
from cluster.spec.documents.links import MeasuredLink
from cluster.spec.documents.run_folder import RunFolder, node_name
from cluster.spec.documents.summary import CurvePoint, Seconds, Summary
from cluster.spec.experiment import Experiment


def summarise(
    folder: RunFolder, experiment: Experiment, status: str, error: str | None = None
) -> Summary:
    """Whatever the folder holds, in emulated time; what is not there is null.

    Of a failed or interrupted run a damaged event log counts as far as it is whole. DocumentError
    where a file is damaged, or where what nodes wrote makes no summary that can be read again.
    """
    try:
        damage_is_known = status in ("failed", "interrupted")
        run = RecordedRun.read(folder, experiment, until_damage=damage_is_known)
        if experiment.virtual:
            summary = virtual.describe(folder, run, status, error, _own_accuracies)
        else:
            judged = fidelity.describe(run, list(folder.read_host_samples()))
            summary = replace(
                _describe(folder, run.emulated(), status, error),
                fidelity=judged,
                faults=faults.describe(experiment, run.workers, folder.read_host_events()),
                arrivals=arrivals.describe([log.steps for log in run.workers], experiment.slowdown),
            )
        return Summary.from_json(summary.to_json())
    except DocumentError:
        raise
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as problem:
        told = f"what the nodes wrote contradicts itself: {problem!r}"
        raise DocumentError(told) from problem


def _describe(folder: RunFolder, run: RecordedRun, status: str, error: str | None) -> Summary:
    if run.experiment.program is not None:
        return program.describe(folder, run, status, error)
    experiment, result = run.experiment, run.first.first(Result)
    steps, rounds, samples_seen = progress.of_each(run)
    return Summary(
        session=folder.session,
        run=folder.name,
        status=status,
        error=error,
        spec=experiment.to_json(),
        model_bytes=run.hello.model_bytes if run.hello else None,
        bucket_bytes=run.hello.bucket_bytes if run.hello else [],
        steps=steps,
        rounds=rounds,
        epochs=len(run.first.epochs),
        samples_seen=samples_seen,
        accuracy=result.accuracy if result else None,
        loss=result.loss if result else None,
        accuracy_by_worker=_own_accuracies(run),
        accuracy_by_worker_samples=result.own_test_samples if result else None,
        consensus_distance=result.consensus_distance if result else None,
        curve=_curve(run),
        progress=progress.by_worker(run),
        bytes=traffic.bytes_by_phase(run),
        per_step=traffic.per_step(run),
        control_traffic=control_traffic.mean(run.control),
        traffic_matrix=traffic.matrix(run),
        counters=traffic.by_counter(run),
        seconds=_seconds(run, folder.read_links()),
        links=folder.read_links(),
        network_activity_sum=counters.activity_sum(run.samples, 1.0),
        training=training.describe(experiment, run.workers),
        gpus=gpu_use.describe(
            list(folder.read_gpu_samples()),
            {node_name(rank): log for rank, log in enumerate(run.logs)},
        ),
    )


def _own_accuracies(run: RecordedRun) -> list[float] | None:
    results = [log.first(Result) for log in run.workers]
    scored = [result for result in results if result and result.accuracy is not None]
    found = [result.own_accuracy for result in scored if result.own_accuracy is not None]
    return found if len(found) == len(results) else None


def _curve(run: RecordedRun) -> list[CurvePoint]:
    """Epochs that all nodes have ended: score, bytes sent and seconds of training so far."""
    points = []
    sent, seconds = 0, 0.0
    for score in run.first.epochs:
        by_node = [_train_spans(log, score.epoch) for log in run.logs]
        if not run.generations and not all(by_node):
            break
        for start, end in (span for spans in by_node for span in spans):
            sent += counters.span([start.counters, end.counters]).sent_bytes
        seconds = _seconds_until(run.first, score.epoch) or seconds
        points.append(
            CurvePoint(
                epoch=score.epoch,
                accuracy=score.accuracy,
                test_samples=score.test_samples,
                loss=score.loss,
                sent_bytes=sent,
                seconds=round(seconds, 4),
                consensus_distance=score.consensus_distance,
            )
        )
    return points


def _train_spans(log: NodeLog, epoch: int) -> list[tuple[Phase, Boundary]]:
    found = [span for span in log.phase_intervals if span[0].phase == "train"]
    return [(start, end) for start, end in found if start.epoch == epoch]


def _seconds_until(log: NodeLog, epoch: int) -> float:
    """Of training to the end of an epoch, with the time in which others went on without this node,
    or it without others; 0 for an epoch that the log does not have."""
    until = max((end.t for _, end in _train_spans(log, epoch)), default=0.0)
    spans = [*log.spans("train"), *log.spans("recover")]
    return sum(end.t - start.t for start, end in spans if end.t <= until)


def _seconds(run: RecordedRun, links: Sequence[MeasuredLink]) -> Seconds:
    times = [event.t for log in run.logs for event in log.events]
    total_s = max(times) - min(times) if times else None
    return Seconds(
        total_s=None if total_s is None else round(total_s, 4),
        wall_s=None if total_s is None else round(total_s * run.experiment.slowdown, 4),
        train_s=round(sum(run.first.seconds("train")), 4),
        **medians(run.experiment, run.steps),
        communication_bound_s=_communication_bound_s(run, links),
        by_node=by_node(run.experiment, run.steps),
    )


def _communication_bound_s(run: RecordedRun, links: Sequence[MeasuredLink]) -> float | None:
    """The lower bound of a step's exchange, mean over steps; None where no link is shaped.

    None, too, where no message schedule is known.
    """
    experiment = run.experiment
    if run.hello is None or not experiment.links or experiment.is_unpaced:
        return None  # without a barrier, computing may hide all of it
    per_round = run.predict(run.hello, experiment.rounds)
    if per_round is None:
        return None
    rounds_per_step = experiment.rounds_per_epoch / experiment.steps_per_epoch
    by_node = {link.node: link.burst_bytes or 0 for link in links}
    bursts = [by_node.get(node_name(rank), 0) for rank in range(experiment.nodes)]
    bound_s = theory.lower_bound_s(per_round, experiment.links_by_rank, bursts)
    return round(bound_s * rounds_per_step, 6)
