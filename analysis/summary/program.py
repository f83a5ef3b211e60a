"""The summary of a user's program: what was measured from outside, and what it told. Pure.

Its bytes are those of phase `train`, in which a program is unless it says otherwise. Nothing is
predicted: what it means to exchange is known to it alone.
"""

from collections import Counter
from statistics import fmean

from analysis.summary import control_traffic, counters, fidelity, traffic, traffic_matrix
from analysis.summary.recorded_run import RecordedRun
from analysis.summary.step_times import WARM_UP, periodic_median
from cluster.spec.documents import summary
from cluster.spec.documents.events import Exited, Operations, Result
from cluster.spec.documents.run_folder import RunFolder, node_name
from cluster.spec.documents.summary import Summary


def describe(folder: RunFolder, run: RecordedRun, status: str, error: str | None) -> Summary:
    results = [result for log in run.logs if (result := log.first(Result))]
    scored = next((result for result in results if result.accuracy is not None), None)
    steps = min(len(of_node) for of_node in run.steps)
    return Summary(
        session=folder.session,
        run=folder.name,
        status=status,
        error=error,
        spec=run.experiment.to_json(),
        steps=steps,
        accuracy=scored.accuracy if scored else None,
        loss=scored.loss if scored else None,
        bytes=traffic.bytes_by_phase(run),
        per_step=_per_step(run, steps),
        control_traffic=control_traffic.mean(run.control),
        traffic_matrix=_matrix(run),
        counters=traffic.by_counter(run),
        seconds=_seconds(run),
        fidelity=fidelity.describe(run, list(folder.read_host_samples())),
        links=folder.read_links(),
        network_activity_sum=counters.activity_sum(run.samples, 1.0),
        program=_program(run),
    )


def _program(run: RecordedRun) -> summary.Program:
    calls: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for event in (event for log in run.logs for event in log.all(Operations)):
        for name, (count, size) in event.operations.items():
            calls[name] += count
            sizes[name] += size
    return summary.Program(
        processes=[
            summary.ProgramProcess(
                node=node_name(rank),
                local_rank=exited.local_rank,
                exit_code=exited.code,
                cpu_s=exited.cpu_s,
                memory_bytes=exited.memory_bytes,
            )
            for rank, log in enumerate(run.logs)
            for exited in log.all(Exited)
        ],
        operations=[
            summary.Operation(name=name, calls=calls[name], tensor_bytes=sizes[name])
            for name in sorted(calls, key=lambda name: (-sizes[name], name))
        ],
    )


def _per_step(run: RecordedRun, steps: int) -> summary.PerStep | None:
    """Payload of the train phase over the steps that every node made; None where none is known.

    Rendezvous and start are in it: with few steps they show.
    """
    if not steps:
        return None
    sent = [
        (node["train"].sent_payload - (control.train_bytes if control else 0)) / steps
        for node, control in zip(run.phases, run.control, strict=True)
    ]
    again = [count for count in run.retransmitted if count is not None]
    busiest = run.retransmitted[sent.index(max(sent))]
    return summary.PerStep(
        sent_mean_bytes=round(fmean(sent), 1),
        sent_max_bytes=round(max(sent), 1),
        retransmitted_mean_bytes=round(fmean(again) / steps, 1) if again else None,
        retransmitted_by_busiest_bytes=None if busiest is None else round(busiest / steps, 1),
    )


def _matrix(run: RecordedRun) -> summary.TrafficMatrix | None:
    """Payload by pair; what interfaces counted beyond it went over connections nobody saw."""
    spans = max(len(log.spans("train")) for log in run.logs)
    found = traffic_matrix.measure(run.logs, spans)
    if found is None:
        return None
    return traffic.matrix_of(run, found, None)


def _seconds(run: RecordedRun) -> summary.Seconds:
    times = [event.t for log in run.logs for event in log.events]
    by_node = [[step.step_s for step in steps[WARM_UP:]] for steps in run.steps]
    total_s = max(times) - min(times) if times else None
    return summary.Seconds(
        total_s=None if total_s is None else round(total_s, 4),
        wall_s=None if total_s is None else round(total_s * run.experiment.slowdown, 4),
        train_s=round(max((sum(log.seconds("train")) for log in run.logs), default=0.0), 4),
        step_median_s=periodic_median(1, *by_node),
        by_node=[
            summary.NodeSeconds(
                node=node_name(rank),
                rank=rank,
                role="worker",
                step_median_s=periodic_median(1, steps),
            )
            for rank, steps in enumerate(by_node)
        ],
    )
