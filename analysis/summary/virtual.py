"""The summary of a run of virtual workers: what they learned, and what nodes would send and take.

Accuracy and loss are those of real nodes. Nothing crossed a link: bytes are those of the message
schedule, and times those of the simulator, on links as asked and with a core for each worker, from
the measured time of computing. `bytes`, `counters` and measured payload are null.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from analysis.summary import training
from analysis.summary.recorded_run import RecordedRun
from analysis.summary.step_times import WARM_UP, rounds_of
from cluster.spec.documents import summary
from cluster.spec.documents.events import Result
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.summary import Summary
from cluster.spec.schedules.messages import boundary_bytes

SIMULATOR = "analysis.predict.step_time"
"""Needs numpy, as no other summary does: imported where there is a virtual run."""
OwnAccuracies = Callable[[RecordedRun], list[float] | None]


def describe(
    folder: RunFolder,
    run: RecordedRun,
    status: str,
    error: str | None,
    own_accuracies: OwnAccuracies,
) -> Summary:
    experiment, result = run.experiment, run.logs[0].first(Result)
    steps = min(len(of_worker) for of_worker in run.steps)
    per_step = _per_step(run)
    return Summary(
        session=folder.session,
        run=folder.name,
        status=status,
        error=error,
        spec=experiment.to_json(),
        model_bytes=run.hello.model_bytes if run.hello else None,
        bucket_bytes=run.hello.bucket_bytes if run.hello else [],
        steps=steps,
        rounds=rounds_of(experiment, steps),
        epochs=len(run.logs[0].epochs),
        samples_seen=steps * experiment.batch_size,
        accuracy=result.accuracy if result else None,
        loss=result.loss if result else None,
        accuracy_by_worker=own_accuracies(run),
        accuracy_by_worker_samples=result.own_test_samples if result else None,
        consensus_distance=result.consensus_distance if result else None,
        curve=_curve(run, per_step.predicted_mean_bytes),
        per_step=per_step,
        seconds=_seconds(run),
        predicted=_predicted_seconds(run, steps),
        training=_training(run),
    )


def _per_step(run: RecordedRun) -> summary.PerStep:
    experiment, hello, epochs = run.experiment, run.hello, run.finished_epochs
    rounds = epochs * experiment.rounds_per_epoch
    if hello is None or not rounds:
        return summary.PerStep()
    steps = epochs * experiment.steps_per_epoch
    per_step = rounds / steps
    payload, framing = run.predict(hello, rounds), run.predict_framing(hello, rounds)
    if payload is None:
        return summary.PerStep()
    boundaries = epochs * boundary_bytes(experiment.nodes)
    return summary.PerStep(
        predicted_mean_bytes=round(payload.sent_mean * per_step, 1),
        predicted_max_bytes=round(payload.sent_max * per_step, 1),
        predicted_framing_bytes=round(framing.sent_mean * per_step + boundaries / steps, 1)
        if framing
        else None,
    )


def _curve(run: RecordedRun, sent_per_step: float | None) -> list[summary.CurvePoint]:
    """Bytes are those of all workers, payload without framing; a server's are as many."""
    experiment = run.experiment
    senders = experiment.workers * (2 if experiment.nodes > experiment.workers else 1)
    by_epoch = None if sent_per_step is None else senders * sent_per_step
    return [
        summary.CurvePoint(
            epoch=score.epoch,
            accuracy=score.accuracy,
            test_samples=score.test_samples,
            loss=score.loss,
            sent_bytes=None
            if by_epoch is None
            else round(by_epoch * score.epoch * experiment.steps_per_epoch),
            consensus_distance=score.consensus_distance,
        )
        for score in run.logs[0].epochs[: run.finished_epochs]
    ]


def _seconds(run: RecordedRun) -> summary.Seconds:
    """Of this process; a worker's computing has a core to itself, for they take turns."""
    times = [event.t for log in run.logs for event in log.events]
    total_s = round(max(times) - min(times), 4) if times else None
    return summary.Seconds(total_s=total_s, wall_s=total_s, compute_median_s=_compute_s(run))


def _compute_s(run: RecordedRun) -> float | None:
    found = [
        step.compute_s for own in run.steps for step in own[WARM_UP:] if step.compute_s is not None
    ]
    return round(median(found), 6) if found else None


def _predicted_seconds(run: RecordedRun, steps: int) -> summary.PredictedSeconds | None:
    compute_s, hello = _compute_s(run), run.hello
    if compute_s is None or hello is None or not run.has_schedule or run.recorded_schedule:
        return None
    simulator = importlib.import_module(SIMULATOR)
    found = simulator.round_times(run.experiment, hello, compute_s)
    return summary.PredictedSeconds(
        step_s=round(found.step_s, 6),
        exchange_s=round(found.exchange_s, 6),
        train_s=round(found.step_s * steps, 4),
    )


def _training(run: RecordedRun) -> summary.Training:
    """Without seconds, which are those of workers that take turns."""
    found = training.describe(run.experiment, run.workers)
    epochs: Sequence[summary.EpochCourse] = [
        replace(epoch, seconds=None, data_s=None, compute_s=None, exposed_communication_s=None)
        for epoch in found.epochs
    ]
    return replace(found, epochs=list(epochs))
