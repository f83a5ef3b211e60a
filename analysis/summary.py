"""A run folder -> its summary (DESIGN, section 4). Standard library only: the command line uses it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from analysis import theory, traffic
from cluster.records import Counters, Summary, total
from cluster.run_folder import RunFolder, node_name
from cluster.spec import Experiment

Events = list[dict[str, Any]]


def summarise(
    folder: RunFolder, experiment: Experiment, status: str, error: str | None = None
) -> Summary:
    """Whatever the folder holds; what is not there is null."""
    events = [folder.read_events(rank) for rank in range(experiment.workers)]
    hello = _first(events[0], "hello")
    result = _first(events[0], "result")
    samples = list(folder.read_samples())
    phases = [traffic.by_phase(one) for one in events]
    steps = [[e for e in one if e["event"] == "step"] for one in events]
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
        accuracy_by_worker=_own_accuracies(events),
        consensus_distance=result["consensus_distance"] if result else None,
        curve=_curve(events),
        bytes=_bytes(phases),
        per_step=_per_step(experiment, phases, _finished_epochs(events), model_bytes),
        counters=_counters(phases, samples if ended else []),
        seconds=_seconds(events, steps),
        network_activity_sum=traffic.activity_sum(samples, 1.0),
    )


def _first(events: Events, kind: str) -> dict[str, Any] | None:
    return next((e for e in events if e["event"] == kind), None)


def _own_accuracies(events: list[Events]) -> list[float] | None:
    results = [_first(one, "result") for one in events]
    found = [result["own_accuracy"] for result in results if result]
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
            }
        )
    return points


def _train_seconds(events: Events) -> list[float]:
    borders = [e for e in events if e["event"] in ("phase", "end")]
    return [
        end["t"] - start["t"]
        for start, end in itertools.pairwise(borders)
        if start["phase"] == "train"
    ]


def _bytes(phases: Sequence[dict[str, Counters]]) -> dict[str, Any]:
    """As the interfaces count them, all nodes. Sent is the traffic; received is the same again."""
    sums = {phase: total(node[phase] for node in phases) for phase in phases[0]}
    sums["total"] = total(sums.values())
    return {
        **{
            phase: {"sent": one.sent_bytes, "received": one.received_bytes}
            for phase, one in sums.items()
        },
        "nodes": [
            {
                "node": node_name(rank),
                "rank": rank,
                "role": "worker",
                "train_sent": node["train"].sent_bytes,
                "train_received": node["train"].received_bytes,
            }
            for rank, node in enumerate(phases)
        ],
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
    epochs: int,
    model_bytes: int | None,
) -> dict[str, Any]:
    """Payload sent per worker and step, beside what theory says."""
    steps, rounds = epochs * experiment.steps_per_epoch, epochs * experiment.rounds_per_epoch
    if steps == 0 or model_bytes is None:
        return dict.fromkeys(("sent_mean", "sent_max", "predicted_mean", "predicted_max", "ratio"))
    measured = [node["train"].sent_payload / steps for node in phases]
    per_round = theory.sent_per_round(
        experiment.strategy,
        workers=experiment.workers,
        model_bytes=model_bytes,
        passes=experiment.passes,
        schedule=experiment.schedule,
        seed=experiment.seed,
        rounds=max(rounds, 1),
    )
    predicted = [sent * rounds / steps for sent in per_round]
    return {
        "sent_mean": round(fmean(measured), 1),
        "sent_max": round(max(measured), 1),
        "predicted_mean": round(fmean(predicted), 1),
        "predicted_max": round(max(predicted), 1),
        "ratio": round(fmean(measured) / fmean(predicted), 5) if any(predicted) else None,
    }


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
        if len(nodes) == len(phases):
            readings[source] = total(nodes.values()).sent_bytes - others
    differences = [
        abs(value - train) / train
        for source, value in readings.items()
        if source != "worker" and value is not None and train > 0
    ]
    readings["largest_difference"] = round(max(differences), 6) if differences else None
    return readings


def _seconds(events: list[Events], steps: list[Events]) -> dict[str, Any]:
    """Medians are over all steps of all workers but the first step, which warms up."""
    times = [e["t"] for one in events for e in one]
    settled = [e for one in steps for e in one[1:]]
    return {
        "total": round(max(times) - min(times), 4) if times else None,
        "train": round(sum(_train_seconds(events[0])), 4),
        "step_median": _median(settled, "step_s"),
        "compute_median": _median(settled, "compute_s"),
        "exposed_communication_median": _median(settled, "exchange_s"),
    }


def _median(steps: Events, name: str) -> float | None:
    return round(median(e[name] for e in steps), 6) if steps else None
