"""The course of training: learning rate, shards, and every epoch. Standard library only."""

from collections.abc import Sequence
from statistics import fmean

from analysis.summary.node_log import NodeLog
from cluster.spec.catalogue import predictions_of
from cluster.spec.documents.events import Step
from cluster.spec.documents.summary import EpochCourse, LearningRate, Shards, Training
from cluster.spec.experiment import Experiment
from cluster.spec.learning_rate import full_rate


def describe(experiment: Experiment, workers: Sequence[NodeLog]) -> Training:
    hello = workers[0].hello
    evaluated = max(len(log.epochs) for log in workers)
    return Training(
        parameters=hello.parameters if hello else None,
        learning_rate=LearningRate(
            given=experiment.lr,
            rule=experiment.lr_rule,
            full=full_rate(experiment),
            warmup_steps=experiment.warmup_steps,
        ),
        shards=_shards([log.hello.labels if log.hello else None for log in workers]),
        epochs=_epochs(experiment, [log.steps for log in workers], evaluated),
    )


def _shards(by_worker: list[list[int] | None]) -> Shards | None:
    """None where a worker has no labels."""
    known = [counts for counts in by_worker if counts and sum(counts)]
    if not known or len(known) < len(by_worker):
        return None
    return Shards(label_counts=known, label_skew=round(label_skew(known), 4))


def label_skew(by_worker: Sequence[Sequence[int]]) -> float:
    """Mean over workers of the total variation distance between their labels and all labels.

    0: all workers have the same labels; towards 1: none in common.
    """
    total = [sum(column) for column in zip(*by_worker, strict=True)]
    shares = [count / sum(total) for count in total]
    return fmean(
        sum(abs(n / sum(counts) - share) for n, share in zip(counts, shares, strict=True)) / 2
        for counts in by_worker
    )


def _epochs(
    experiment: Experiment, steps: Sequence[Sequence[Step]], evaluated: int
) -> list[EpochCourse]:
    """Epochs of which every sample was read, by whichever workers were there.

    A worker that was killed while others completed its step has not told of it: an epoch that was
    evaluated is complete all the same.

    The first epoch warms up caches; a comparison of times leaves it out.
    """
    found: dict[int, list[list[Step]]] = {}
    for worker, of_worker in enumerate(steps):
        for step in of_worker:
            found.setdefault(step.epoch, [[] for _ in steps])[worker].append(step)
    whole = experiment.steps_per_epoch * experiment.batch_size * experiment.workers
    return [
        _epoch(experiment, epoch, [made for made in by_worker if made or experiment.is_unpaced])
        for epoch, by_worker in sorted(found.items())
        if 0 < epoch <= evaluated
        or sum(samples_in(experiment, made) for made in by_worker) >= whole
    ]


def samples_in(experiment: Experiment, steps: Sequence[Step]) -> int:
    sizes = (step.samples for step in steps)
    return sum(experiment.batch_size if size is None else size for size in sizes)


def _epoch(experiment: Experiment, epoch: int, by_worker: Sequence[Sequence[Step]]) -> EpochCourse:
    steps = [step for of_worker in by_worker for step in of_worker]
    losses = [step.loss for step in steps if step.loss is not None]
    correct = [step.correct for step in steps if step.correct is not None]
    predictions = samples_in(experiment, steps) * predictions_of(experiment.dataset)
    is_scored = experiment.dataset != "none" and len(correct) == len(steps)
    if not experiment.is_unpaced:  # times are those of the workers that were there to its end
        last = max(step.step for step in steps)
        by_worker = [made for made in by_worker if made[-1].step == last]
    return EpochCourse(
        epoch=epoch,
        train_loss=round(fmean(losses), 6) if losses else None,
        train_accuracy=round(sum(correct) / predictions, 6) if is_scored else None,
        seconds=_seconds(by_worker, "step_s"),
        data_s=_seconds(by_worker, "data_s"),
        compute_s=_seconds(by_worker, "compute_s"),
        exposed_communication_s=_seconds(by_worker, "exchange_s"),
    )


def _seconds(by_worker: Sequence[Sequence[Step]], name: str) -> float | None:
    """Sum over a worker's steps, mean over workers; None where a step does not know."""
    seconds = [[getattr(step, name) for step in steps] for steps in by_worker]
    if any(None in of_worker for of_worker in seconds):
        return None
    return round(fmean(sum(of_worker) for of_worker in seconds), 6)
