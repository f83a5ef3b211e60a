"""What measured runs show of the cost model: a cluster, its step time and its bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from analysis.predict.cost_model import Cluster
from analysis.tables.checks import read_checked
from cluster.spec import synthetic
from cluster.spec.documents.codec import Json
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.summary import NO_CONCLUSION, Summary
from cluster.spec.links import parse_link
from cluster.spec.strategies import facts_of

T = TypeVar("T")

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
    A damaged run, which the tables do not take, is None too, and so is one on a contended host.
    """
    try:
        summary = read_checked(folder)
        if summary.status != "completed" or not _is_covered(summary.spec):
            return None
        if summary.fidelity is not None and summary.fidelity.verdict in NO_CONCLUSION:
            return None
        per_step = _known(summary.per_step)
        return Observation(
            _cluster(summary, _cores(summary.spec, folder.read_environment().cores)),
            step_s=_known(_known(summary.seconds).step_median_s),
            sent_bytes=_known(per_step.sent_mean_bytes)
            * _known(summary.steps)
            / _known(summary.rounds),
            run=f"{summary.session}/{summary.run}",
        )
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
        return None


def _cluster(summary: Summary, cores: int | None) -> Cluster:
    spec: Json = summary.spec
    link = parse_link(spec["link"]) if spec["link"] else None
    compute_s = _known(summary.seconds).compute_median_s
    if compute_s is None:  # not measured with overlap: known of synthetic models only
        model = synthetic.parse(spec["model"])
        compute_s = model.forward_s + model.backward_s
    return Cluster(
        strategy=spec["strategy"],
        workers=spec["workers"],
        model_bytes=_known(summary.model_bytes),
        rate_mbit=link.rate_mbit if link else None,
        delay_s=link.delay_s if link else 0.0,
        passes=spec["passes"],
        schedule=spec["schedule"],
        local_steps=spec["local_steps"],
        compute_s=compute_s,
        burst_bytes=max((shaped.burst_bytes or 0 for shaped in summary.links), default=0),
        cores=cores,
    )


def _cores(spec: Json, cores: int | None) -> int | None:
    """With time dilation every node has a core of its own."""
    return spec["workers"] if (spec.get("dilation") or 1) != 1 else cores


def _known(value: T | None) -> T:
    if value is None:
        raise ValueError("not recorded")
    return value


def observe_all(folders: Iterable[RunFolder]) -> list[Observation]:
    return [run for folder in folders if (run := observe(folder)) is not None]


def _is_covered(spec: Json) -> bool:
    if any(spec.get(name) for name in NOT_COVERED) or spec.get("launcher", "torch") != "torch":
        return False
    steps = spec["train_size"] // spec["workers"] // spec["batch_size"]
    facts = facts_of(spec["strategy"])
    return facts.has_schedule and facts.exchanges and steps % spec["local_steps"] == 0
