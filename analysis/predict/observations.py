"""What measured runs show of the cost model: a cluster, its step time and its bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.predict.cost_model import Cluster
from cluster.spec import synthetic
from cluster.spec.documents.codec import Json
from cluster.spec.links import parse_link
from cluster.spec.run_folder import RunFolder
from cluster.spec.strategies import STRATEGIES

NOT_COVERED = ("bottleneck", "straggler", "cpus", "overlap", "gpu")
"""Options of runs that the cost model does not cover."""


@dataclass(frozen=True)
class Observation:
    cluster: Cluster
    step_s: float
    sent_bytes: float
    """Payload, per worker and exchange."""
    run: str = ""


def observe(folder: RunFolder) -> Observation | None:
    """What a completed run shows; None where the cost model does not cover it.

    Its constants are those of CPUs and eth0, of torch.distributed, and of nodes that are all alike.
    """
    try:
        summary = folder.read_summary()
        cores = folder.read_environment().cores
        spec: Json = summary.spec
        if summary.status != "completed" or not _is_covered(spec):
            return None
        if summary.seconds is None or summary.per_step is None:
            return None
        step_s, compute_s = summary.seconds.step_median_s, summary.seconds.compute_median_s
        if compute_s is None:  # not measured with overlap: known of synthetic models only
            made = synthetic.parse(spec["model"])
            compute_s = made.forward_s + made.backward_s
        model_bytes, steps, rounds = summary.model_bytes, summary.steps, summary.rounds
        sent_bytes = summary.per_step.sent_mean_bytes
        if model_bytes is None or steps is None or rounds is None:
            return None
        if step_s is None or sent_bytes is None:
            return None
        link = parse_link(spec["link"]) if spec["link"] else None
        return Observation(
            Cluster(
                strategy=spec["strategy"],
                workers=spec["workers"],
                model_bytes=model_bytes,
                rate_mbit=link.rate_mbit if link else None,
                delay_s=link.delay_s if link else 0.0,
                passes=spec["passes"],
                schedule=spec["schedule"],
                local_steps=spec["local_steps"],
                compute_s=compute_s,
                burst_bytes=max((link.burst_bytes or 0 for link in summary.links), default=0),
                cores=cores,
            ),
            step_s=step_s,
            sent_bytes=sent_bytes * steps / rounds,
            run=f"{summary.session}/{summary.run}",
        )
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError):
        return None


def observe_all(folders: Iterable[RunFolder]) -> list[Observation]:
    return [run for folder in folders if (run := observe(folder)) is not None]


def _is_covered(spec: Json) -> bool:
    if any(spec.get(name) for name in NOT_COVERED) or spec.get("launcher", "torch") != "torch":
        return False
    steps = spec["train_size"] // spec["workers"] // spec["batch_size"]
    return STRATEGIES[spec["strategy"]].exchanges and steps % spec["local_steps"] == 0
