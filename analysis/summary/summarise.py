"""A run folder -> its summary (DESIGN, section 4). Standard library only: the command line uses it.

python -m analysis.summary RUN_FOLDER      of a run that nobody watched; see analysis/summary/command.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from analysis.summary import control_traffic as control
from analysis.summary import counters as traffic
from analysis.summary import gpu_use
from analysis.summary import traffic_matrix as pairs
from analysis.summary import training as training_course
from analysis.summary.control_traffic import Control
from analysis.summary.step_times import by_node, of_all
from analysis.theory import predicted_bytes as theory
from analysis.theory import traffic_matrix as who_to_whom
from cluster.spec.experiment import Experiment
from cluster.spec.records import Counters, Sample, Summary, total
from cluster.spec.run_folder import RunFolder, node_name

Events = list[dict[str, Any]]

PER_STEP = (
    *("sent_mean", "sent_max", "predicted_mean", "predicted_max"),
    *("ratio", "repeated_mean", "repeated_by_busiest"),
)

ALL_CROSSED = 0.5
"""Of what was predicted: GPUs whose interfaces carried less exchanged it another way, of which theory says nothing."""


def summarise(
    folder: RunFolder, experiment: Experiment, status: str, error: str | None = None
) -> Summary:
    """Whatever the folder holds; what is not there is null."""
    events = [folder.read_events(rank) for rank in range(experiment.nodes)]
    of_workers = events[: experiment.workers]
    hello = _first(events[0], "hello")
    result = _first(events[0], "result")
    samples = list(folder.read_samples())
    phases = [traffic.by_phase(one) for one in events]
    talk = [control.of_node(one) for one in events]
    steps = [[e for e in one if e["event"] == "step"] for one in of_workers]
    done = min(len(one) for one in steps)
    ended = all(_first(one, "end") for one in events)
    model_bytes = hello["model_bytes"] if hello else None
    return Summary(
        session=folder.session,
        run=folder.name,
        status=status,
        error=error,
        spec=experiment.to_json(),
        model_bytes=model_bytes,
        steps=done,
        rounds=_rounds(experiment, done),
        epochs=len([e for e in events[0] if e["event"] == "epoch"]),
        samples_seen=done * experiment.batch_size,
        accuracy=result["accuracy"] if result else None,
        loss=result["loss"] if result else None,
        accuracy_by_worker=_own_accuracies(of_workers),
        consensus_distance=result["consensus_distance"] if result else None,
        curve=_curve(events),
        bytes=_bytes(phases, experiment, _auxiliary_services(experiment, events[0], samples)),
        per_step=_per_step(experiment, phases, talk, events, hello),
        control=_control(talk),
        peers=_peers(experiment, phases, talk, events, hello),
        counters={
            **_counters(phases, _of_workers(events, samples) if ended else []),
            "sharers": _sharers(of_workers),
        },
        seconds={
            **_seconds(experiment, events, steps),
            "communication_bound": _bound(experiment, hello),
            "by_node": by_node(experiment, steps),
        },
        links=folder.read_links(),
        network_activity_sum=traffic.activity_sum(samples, 1.0),
        training=training_course.describe(experiment, of_workers),
        gpus=gpu_use.describe(
            list(folder.read_gpu_samples()),
            {node_name(rank): one for rank, one in enumerate(events)},
        ),
    )


def _first(events: Events, kind: str) -> dict[str, Any] | None:
    return next((e for e in events if e["event"] == kind), None)


def _own_accuracies(events: list[Events]) -> list[float] | None:
    results = [_first(one, "result") for one in events]
    found = [
        result["own_accuracy"] for result in results if result and result["accuracy"] is not None
    ]
    return found if len(found) == len(events) else None


def _curve(events: list[Events]) -> list[dict[str, Any]]:
    """Per epoch: how good the consensus model was, after how many sent bytes and train seconds."""
    spans = [
        [(e, t) for phase, e, t in traffic.phase_spans(one) if phase == "train"] for one in events
    ]
    seconds_by_epoch = _train_seconds(events[0])
    points = []
    sent, elapsed = 0, 0.0
    for index, scored in enumerate(e for e in events[0] if e["event"] == "epoch"):
        if any(len(one) <= index for one in spans):
            break
        sent += sum(one[index][1].sent_bytes for one in spans)
        elapsed += seconds_by_epoch[index]
        points.append(
            {
                "epoch": scored["epoch"],
                "accuracy": scored["accuracy"],
                "loss": scored["loss"],
                "sent_bytes": sent,
                "seconds": round(elapsed, 4),
                "consensus_distance": scored.get("consensus_distance"),
            }
        )
    return points


def _train_seconds(events: Events) -> list[float]:
    return [end["t"] - start["t"] for start, end in traffic.spans(events, "train")]


def _auxiliary_services(
    experiment: Experiment, events: Events, samples: Sequence[Sample]
) -> dict[str, dict[str, Counters]]:
    """Traffic of the nodes that a launcher adds, in training and in all, as the collector saw it."""
    train = [(start["t"], end["t"]) for start, end in traffic.spans(events, "train")]
    found = {}
    for name in experiment.auxiliary_services:
        of_one = [sample for sample in samples if sample.node == name]
        source = next((s.source for s in of_one), None)  # one of them: all count the same
        readings = [s for s in of_one if s.source == source]
        found[name] = {
            "train": traffic.within(readings, train),
            "total": traffic.span([s.counters for s in readings]),
        }
    return found


def _bytes(
    phases: Sequence[dict[str, Counters]],
    experiment: Experiment,
    auxiliary_services: dict[str, dict[str, Counters]],
) -> dict[str, Any]:
    """As the interfaces count them. Sent is the traffic; received is the same again.

    Sums are over the nodes that exchange: a launcher's own nodes stand only in the list.
    """
    workers = experiment.workers
    sums = {phase: total(node[phase] for node in phases) for phase in phases[0]}
    sums["total"] = total(sums.values())
    return {
        **{
            phase: {"sent": one.sent_bytes, "received": one.received_bytes}
            for phase, one in sums.items()
        },
        "nodes": [
            _node_bytes(
                node_name(rank),
                rank,
                "worker" if rank < workers else "server",
                {**node, "total": total(node.values())},
            )
            for rank, node in enumerate(phases)
        ]
        + [_node_bytes(name, None, name, counted) for name, counted in auxiliary_services.items()],
    }


def _node_bytes(
    name: str, rank: int | None, role: str, counted: dict[str, Counters]
) -> dict[str, Any]:
    return {
        "node": name,
        "rank": rank,
        "role": role,
        "train_sent": counted["train"].sent_bytes,
        "train_received": counted["train"].received_bytes,
        "sent": counted["total"].sent_bytes,
        "received": counted["total"].received_bytes,
    }


def _rounds(experiment: Experiment, steps: int) -> int:
    """Exchanges in so many steps; an epoch ends with one, also when it is not a whole number."""
    if not experiment.rounds:
        return 0
    epochs, rest = divmod(steps, experiment.steps_per_epoch)
    return epochs * experiment.rounds_per_epoch + rest // experiment.local_steps


def _finished_epochs(events: list[Events]) -> int:
    """Epochs whose bytes are booked on every node."""
    return min(len([e for e in one if e.get("phase") == "evaluate"]) for one in events)


def _per_step(
    experiment: Experiment,
    phases: Sequence[dict[str, Counters]],
    talk: Sequence[Control | None],
    events: list[Events],
    hello: dict[str, Any] | None,
) -> dict[str, Any]:
    """Payload of training sent per step, mean over workers and by the busiest, beside what theory says.

    And how much of it TCP sent again: a slow link's full queue drops packets, and so may a busy machine. What is
    sent again is on the wire like the rest, but how much it is is chance, and theory has none of it.
    """
    epochs = _finished_epochs(events)
    steps, rounds = epochs * experiment.steps_per_epoch, epochs * experiment.rounds_per_epoch
    if steps == 0 or hello is None:
        return dict.fromkeys(PER_STEP)
    measured = [
        (node["train"].sent_payload - (said.train_bytes if said else 0)) / steps
        for node, said in zip(phases, talk, strict=True)
    ]
    per_round = _predict(experiment, hello, rounds)
    measured_mean = fmean(measured[: experiment.workers])
    predicted_mean = per_round.sent_mean * rounds / steps
    ratio = round(measured_mean / predicted_mean, 5) if predicted_mean else None
    if experiment.gpu and ratio is not None and ratio < ALL_CROSSED:
        ratio = None
    repeated = [traffic.repeated(one, "train") for one in events]
    of_workers = [one for one in repeated[: experiment.workers] if one is not None]
    of_busiest = repeated[measured.index(max(measured))]
    return {
        "sent_mean": round(measured_mean, 1),
        "sent_max": round(max(measured), 1),
        "predicted_mean": round(predicted_mean, 1),
        "predicted_max": round(per_round.sent_max * rounds / steps, 1),
        "ratio": ratio,
        "repeated_mean": round(fmean(of_workers) / steps, 1)
        if len(of_workers) == experiment.workers
        else None,
        "repeated_by_busiest": round(of_busiest / steps, 1) if of_busiest is not None else None,
    }


def _peers(
    experiment: Experiment,
    phases: Sequence[dict[str, Counters]],
    talk: Sequence[Control | None],
    events: list[Events],
    hello: dict[str, Any] | None,
) -> dict[str, Any] | None:
    """Payload of training by who sent it to whom, measured and from theory; null where it was not counted.

    `interfaces` is what they counted of the same: payload without what TCP sent again, which a node's pairs should
    add up to, and headers, 66 bytes a packet. (On a slow link they are more: part of what is sent again the link's own
    queue drops before it is counted.)
    """
    epochs = _finished_epochs(events)
    found = pairs.measure(
        events, epochs, [None if said is None else said.train_bytes for said in talk]
    )
    if found is None or hello is None or not experiment.rounds:
        return None
    rounds = epochs * experiment.rounds_per_epoch
    joined = _first(events[0], "joined")
    predicted = who_to_whom.matrix(
        experiment.strategy,
        _setting(experiment, hello, rounds),
        buffers=str(experiment.buffers),
        buffer_bytes=hello.get("buffer_bytes", 0),
        order=joined["order"] if joined else None,
    )
    train = total(node["train"] for node in phases)
    again = [traffic.repeated(one, "train") or 0 for one in events]
    payload = [node["train"].sent_payload - n for node, n in zip(phases, again, strict=True)]
    return {
        "pairs": pairs.table(found, [[cell * rounds for cell in row] for row in predicted]),
        "elsewhere": sum(n for (_, receiver), n in found.sent.items() if receiver is None),
        "closed": found.closed,
        "interfaces": {
            "payload": sum(payload),
            "payload_by_node": payload,
            "repeated_by_node": again,
            "headers": train.sent_bytes - train.sent_payload,
        },
    }


def _control(talk: Sequence[Control | None]) -> dict[str, Any] | None:
    """What workers said to each other beside training, per worker; null where the launcher is silent."""
    known = [one for one in talk if one is not None]
    if not known or len(known) < len(talk):
        return None
    said, seconds = fmean(one.train_bytes for one in known), known[0].seconds
    return {
        "message_bytes": round(fmean(one.message_bytes for one in known), 1),
        "sent_mean": round(said, 1),
        "per_second": round(said / seconds, 1) if seconds else None,
    }


def _predict(experiment: Experiment, hello: dict[str, Any], rounds: int) -> theory.Prediction:
    """Bytes of one round, on average over these."""
    return theory.predict(
        experiment.strategy,
        **dataclasses.asdict(_setting(experiment, hello, rounds)),
        buffers=str(experiment.buffers),
        buffer_bytes=hello.get("buffer_bytes", 0),
    )


def _setting(experiment: Experiment, hello: dict[str, Any], rounds: int) -> theory.Setting:
    return theory.Setting(
        workers=experiment.workers,
        model_bytes=hello["model_bytes"],
        passes=experiment.passes,
        schedule=experiment.schedule,
        seed=experiment.seed,
        rounds=max(rounds, 1),
    )


def _bound(experiment: Experiment, hello: dict[str, Any] | None) -> float | None:
    """The least that a step's exchange can take on links that are throttled, on average."""
    if hello is None or not experiment.links:
        return None
    per_round = _predict(experiment, hello, experiment.rounds)
    rounds_per_step = experiment.rounds_per_epoch / experiment.steps_per_epoch
    return round(theory.lower_bound_s(per_round, experiment.rates_mbit) * rounds_per_step, 6)


def _counters(phases: Sequence[dict[str, Counters]], samples: list[Any]) -> dict[str, Any]:
    """Train bytes (sent, all nodes) by source; null for the collector's where a run did not end.

    The collector does not know phases: its sources give the traffic of the whole run, from which we
    take what the workers booked to the other phases. So every byte that two sources disagree on, in
    whatever phase, is charged to train.
    """
    booked = {phase: total(node[phase] for node in phases) for phase in phases[0]}
    train = booked["train"].sent_bytes
    others = total(booked.values()).sent_bytes - train
    readings: dict[str, Any] = {"worker": train, "kernel": None, "docker": None}
    for source, nodes in traffic.by_source(samples).items():
        exchanging = [
            nodes[name] for rank in range(len(phases)) if (name := node_name(rank)) in nodes
        ]
        if len(exchanging) == len(phases):
            readings[source] = total(exchanging).sent_bytes - others
    differences = [
        abs(value - train) / train
        for source, value in readings.items()
        if source != "worker" and value is not None and train > 0
    ]
    readings["largest_difference"] = round(max(differences), 6) if differences else None
    return readings


def _of_workers(events: list[Events], samples: Sequence[Sample]) -> list[Sample]:
    """Readings from when the first worker began to when the last had ended."""
    times = [e["t"] for one in events for e in one]
    return traffic.enclosing(samples, min(times), max(times))


def _sharers(events: list[Events]) -> int | None:
    """How many workers share a host's interfaces and are booked equal parts; null where each has its own."""
    most = max(
        (e.get("sharers", 1) for one in events for e in one if e["event"] == "hello"), default=1
    )
    return most if most > 1 else None


def _seconds(experiment: Experiment, events: list[Events], steps: list[Events]) -> dict[str, Any]:
    """Medians are over all steps of all workers but the first step, which warms up."""
    times = [e["t"] for one in events for e in one]
    return {
        "total": round(max(times) - min(times), 4) if times else None,
        "train": round(sum(_train_seconds(events[0])), 4),
        **of_all(experiment, steps),
    }
