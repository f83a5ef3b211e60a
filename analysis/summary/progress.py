"""How far each worker came: equally far with a barrier, each at its own pace without. Pure."""

from analysis.summary.recorded_run import RecordedRun
from analysis.summary.step_times import rounds_of
from analysis.summary.training import samples_in
from cluster.spec.documents.events import Result
from cluster.spec.documents.run_folder import node_name
from cluster.spec.documents.summary import WorkerProgress


def of_each(run: RecordedRun) -> tuple[int, int, int]:
    """Steps, rounds and samples of a worker.

    Where workers changed: of the whole run, and the samples of the first that was there at its end.
    """
    batch = run.experiment.batch_size
    if not run.generations or run.experiment.is_unpaced:
        steps = steps_of_each(run)
        return steps, rounds_of_each(run, steps), steps * batch
    made, result = run.first.steps, run.first.first(Result)
    rounds = result.rounds if result else run.generations[-1].start.round
    samples = sum(batch if step.samples is None else step.samples for step in made)
    return max((step.step for step in made), default=0), rounds, samples


def steps_of_each(run: RecordedRun) -> int:
    """Steps that every worker has made; without a barrier the mean, rounded down."""
    counts = [len(of_worker) for of_worker in run.steps]
    return sum(counts) // len(counts) if run.experiment.is_unpaced else min(counts)


def rounds_of_each(run: RecordedRun, steps: int) -> int:
    """Of so many steps; without a barrier the mean of what workers recorded, rounded down."""
    if not run.experiment.is_unpaced:
        return rounds_of(run.experiment, steps)
    rounds = [record.rounds for of_worker in run.exchanges.values() for record in of_worker]
    return sum(rounds) // run.experiment.workers


def by_worker(run: RecordedRun) -> list[WorkerProgress]:
    """Of the epochs that all workers have ended; empty with a barrier.

    Where workers changed, exchanges are of those parts of epochs that nobody was lost in.
    """
    if not run.experiment.is_unpaced:
        return []
    counted = {
        rank: sum(record.rounds for record in of_worker)
        for rank, of_worker in run.exchanges.items()
    }
    most = max(counted.values(), default=0)
    return [_of_worker(run, rank, rounds, most) for rank, rounds in counted.items()]


def _of_worker(run: RecordedRun, rank: int, rounds: int, most: int) -> WorkerProgress:
    records = run.exchanges[rank]
    steps = sum(record.steps for record in records)
    samples = steps * run.experiment.batch_size
    if run.generations:
        steps, samples = len(run.steps[rank]), samples_in(run.experiment, run.steps[rank])
    train_s = sum(run.logs[rank].seconds("train")[: run.finished_epochs])
    staleness = sum(record.staleness_sum for record in records)
    return WorkerProgress(
        node=node_name(rank),
        rank=rank,
        steps=steps,
        samples=samples,
        samples_per_s=round(samples / train_s, 3) if train_s else None,
        rounds=rounds,
        skipped=sum(record.skipped for record in records),
        participation=round(rounds / most, 4) if most else None,
        staleness_mean=round(staleness / rounds, 3) if rounds else None,
        staleness_max=max(record.staleness_max for record in records) if rounds else None,
    )
