"""The bytes of a run: by phase and node, per step and predicted, by pair, by counter. Pure."""

from collections.abc import Sequence
from statistics import fmean

from analysis.summary import counters, traffic_matrix
from analysis.summary.recorded_run import RecordedRun
from analysis.theory import traffic_matrix as predicted_matrix
from cluster.spec.documents import summary
from cluster.spec.documents.events import Hello
from cluster.spec.documents.records import PHASES, Counters, Sample, total
from cluster.spec.documents.run_folder import node_name
from cluster.spec.schedules.messages import boundary_bytes

ALL_CROSSED = 0.5
"""GPUs whose interfaces carried less than this share of the prediction exchanged past them."""


def bytes_by_phase(run: RecordedRun) -> summary.Bytes:
    """Sums are over the nodes that exchange: auxiliary services are only in the list."""
    sums = {phase: total(node[phase] for node in run.phases) for phase in PHASES}
    nodes = [
        _node(
            node_name(rank),
            rank,
            "worker" if rank < run.experiment.workers else "server",
            node["train"],
            total(node.values()),
        )
        for rank, node in enumerate(run.phases)
    ]
    return summary.Bytes(
        **{phase: _traffic(counted) for phase, counted in sums.items()},
        total=_traffic(total(sums.values())),
        background=_traffic(background_of(run)) if run.experiment.background else None,
        nodes=nodes + _auxiliary_services(run),
    )


def background_of(run: RecordedRun) -> Counters:
    return total(log.background for log in run.logs)


def _traffic(counted: Counters) -> summary.Traffic:
    return summary.Traffic(
        sent_bytes=counted.sent_bytes,
        received_bytes=counted.received_bytes,
        sent_payload_bytes=counted.sent_payload,
    )


def _node(
    name: str, rank: int | None, role: str, train: Counters, whole: Counters
) -> summary.NodeTraffic:
    return summary.NodeTraffic(
        node=name,
        rank=rank,
        role=role,
        train_sent_bytes=train.sent_bytes,
        train_received_bytes=train.received_bytes,
        sent_bytes=whole.sent_bytes,
        received_bytes=whole.received_bytes,
    )


def _auxiliary_services(run: RecordedRun) -> list[summary.NodeTraffic]:
    """As the collector saw them: they write no counters of their own."""
    train = [(start.t, end.t) for start, end in run.first.spans("train")]
    found = []
    for name in run.experiment.auxiliary_services:
        samples = [sample for sample in run.samples if sample.node == name]
        source = next((sample.source for sample in samples), None)  # all sources count the same
        readings = [sample for sample in samples if sample.source == source]
        whole = counters.span([sample.counters for sample in readings])
        found.append(_node(name, None, name, counters.within(readings, train), whole))
    return found


def per_step(run: RecordedRun) -> summary.PerStep:
    """Payload sent in a training step, mean over workers and by the busiest node.

    What TCP sent again is in it, as on the wire, and no prediction has it: a slow link's full queue
    drops packets, and so may a busy machine.
    """
    experiment, epochs, hello = run.experiment, run.finished_epochs, run.hello
    steps, rounds = epochs * experiment.steps_per_epoch, epochs * experiment.rounds_per_epoch
    if steps == 0 or hello is None:
        return summary.PerStep()
    if run.generations:
        return _per_step_of_changed(run, hello)
    measured = [
        (node["train"].sent_payload - (control.train_bytes if control else 0)) / steps
        for node, control in zip(run.phases, run.control, strict=True)
    ]
    per_round = run.predict(hello, rounds)
    measured_mean = fmean(measured[: experiment.workers])
    predicted_mean = per_round.sent_mean * rounds / steps if per_round else None
    framing = run.predict_framing(hello, rounds)
    boundaries = epochs * boundary_bytes(experiment.nodes)
    framing_mean = (framing.sent_mean * rounds + boundaries) / steps if framing else None
    whole = (predicted_mean or 0.0) + (framing_mean or 0.0)
    ratio = round(measured_mean / whole, 5) if predicted_mean else None
    if experiment.gpu and ratio is not None and ratio < ALL_CROSSED:
        ratio = None
    by_workers = [n for n in run.retransmitted[: experiment.workers] if n is not None]
    by_busiest = run.retransmitted[measured.index(max(measured))]
    is_counted = len(by_workers) == experiment.workers
    return summary.PerStep(
        sent_mean_bytes=round(measured_mean, 1),
        sent_max_bytes=round(max(measured), 1),
        predicted_mean_bytes=None if predicted_mean is None else round(predicted_mean, 1),
        predicted_max_bytes=round(per_round.sent_max * rounds / steps, 1) if per_round else None,
        predicted_framing_bytes=None if framing_mean is None else round(framing_mean, 1),
        ratio=ratio,
        retransmitted_mean_bytes=round(fmean(by_workers) / steps, 1) if is_counted else None,
        retransmitted_by_busiest_bytes=None if by_busiest is None else round(by_busiest / steps, 1),
    )


def _per_step_of_changed(run: RecordedRun, hello: Hello) -> summary.PerStep:
    """Payload of all workers in training over all steps that they made, whoever was there."""
    steps = sum(map(len, run.steps))
    payload = [node["train"].sent_payload for node in run.phases]
    predicted = run.predict_changed(hello)
    if not steps:
        return summary.PerStep()
    busiest = [sent / len(made) for sent, made in zip(payload, run.steps, strict=False) if made]
    measured = sum(payload[: run.experiment.workers])
    if predicted is None:
        return summary.PerStep(
            sent_mean_bytes=round(measured / steps, 1), sent_max_bytes=round(max(busiest), 1)
        )
    return summary.PerStep(
        sent_mean_bytes=round(measured / steps, 1),
        sent_max_bytes=round(max(busiest), 1),
        predicted_mean_bytes=round(predicted[0] / steps, 1),
        predicted_framing_bytes=round(predicted[1] / steps, 1),
        ratio=round(measured / sum(predicted), 5) if predicted[0] else None,
    )


def matrix(run: RecordedRun) -> summary.TrafficMatrix | None:
    """None where connections were not counted, where nothing is exchanged, and where workers
    changed: what a connection carried is lost with it."""
    if run.generations:
        return None
    epochs, hello = run.finished_epochs, run.hello
    control = [None if control is None else control.train_bytes for control in run.control]
    found = traffic_matrix.measure(run.logs, epochs, control)
    if found is None or hello is None or not run.experiment.rounds:
        return None
    rounds = epochs * run.experiment.rounds_per_epoch
    predicted = _predicted_pairs(run, hello, rounds)
    return matrix_of(run, found, predicted)


def matrix_of(
    run: RecordedRun,
    found: traffic_matrix.Measured,
    predicted: predicted_matrix.Matrix | None,
) -> summary.TrafficMatrix:
    """What connections carried, beside what the interfaces counted in training."""
    train = total(node["train"] for node in run.phases)
    again = [count or 0 for count in run.retransmitted]
    payload = [node["train"].sent_payload - n for node, n in zip(run.phases, again, strict=True)]
    return summary.TrafficMatrix(
        pairs=traffic_matrix.table(found, predicted, len(run.logs)),
        other_destinations_bytes=sum(
            count for (_, receiver), count in found.sent.items() if receiver is None
        ),
        closed_connections=found.closed,
        interfaces=summary.InterfaceTraffic(
            payload_bytes=sum(payload),
            payload_bytes_by_node=payload,
            retransmitted_bytes_by_node=again,
            header_bytes=train.sent_bytes - train.sent_payload,
        ),
    )


def _predicted_pairs(run: RecordedRun, hello: Hello, rounds: int) -> predicted_matrix.Matrix | None:
    """In all rounds together; None where no message schedule is known."""
    if not (run.has_schedule or run.experiment.is_unpaced):
        return None
    strategy, setting, rounds = run.experiment.strategy, run.setting_in_order(hello), max(rounds, 1)
    recorded = run.recorded_messages(hello, rounds)
    a_round = predicted_matrix.matrix(strategy, setting, rounds, recorded)
    return [[cell * rounds for cell in row] for row in a_round]


def by_counter(run: RecordedRun) -> summary.CounterBytes:
    """Bytes sent in training, by source; unknown for the collector's where a run did not end.

    The collector does not know phases: its sources give the traffic of the whole run, from which
    the bytes that workers booked to other phases or to background traffic are taken. So every byte
    on which two sources disagree, in whatever phase, is charged to training.
    """
    booked = {phase: total(node[phase] for node in run.phases) for phase in PHASES}
    train = booked["train"].sent_bytes
    others = total(booked.values()).sent_bytes - train + background_of(run).sent_bytes
    readings: dict[str, int] = {}
    for source, nodes in counters.by_source(_of_workers(run)).items():
        names = [name for rank in range(len(run.logs)) if (name := node_name(rank)) in nodes]
        if len(names) == len(run.logs):
            readings[source] = total(nodes[name] for name in names).sent_bytes - others
    differences = [abs(value - train) / train for value in readings.values() if train > 0]
    return summary.CounterBytes(
        worker_bytes=train,
        kernel_bytes=readings.get("kernel"),
        docker_bytes=readings.get("docker"),
        largest_difference=round(max(differences), 6) if differences else None,
        workers_per_host=_workers_per_host(run),
    )


def _of_workers(run: RecordedRun) -> Sequence[Sample]:
    """Readings from the first worker's begin to the last one's end; none where one has no end."""
    if not run.has_ended:
        return []
    times = [event.t for log in run.logs for event in log.events]
    return counters.enclosing(run.samples, min(times), max(times))


def _workers_per_host(run: RecordedRun) -> int | None:
    """None where each worker has interfaces of its own."""
    most = max((log.hello.workers_on_host for log in run.workers if log.hello), default=1)
    return most if most > 1 else None
