"""The columns of the tables of runs: which key of summary.json each holds, and its type."""

from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from cluster.spec.documents.codec import Document, hints
from cluster.spec.documents.faults import FaultOutcome, LateNode
from cluster.spec.documents.links import MeasuredLink
from cluster.spec.documents.summary import (
    CurvePoint,
    EpochCourse,
    GpuUse,
    NodeSeconds,
    NodeTraffic,
    PairTraffic,
    Summary,
    WorkerProgress,
)
from cluster.spec.experiment import Experiment

OWN_COLUMNS = ("strategy", "workers", "passes", "schedule", "engine", "dataset")
WATCHING = ("interval", "timeline", "dilation", "folder", "save_state", "continues")
"""How a run was watched and where its files were, not what it was; times are in emulated time,
whatever the dilation."""

RENAMED = {"loss": "loss_function"}
"""Options whose column has another name: `loss` is the final one."""

OPTIONS = {
    RENAMED.get(name, name): hint
    for name, hint in sorted(hints(Experiment).items(), key=lambda item: item[0] == "seed")
    if name not in (*OWN_COLUMNS, *WATCHING)
}
"""What runs may differ in beside strategy and workers, with its type; the seed comes last."""

COLUMNS = {
    **{name: name for name in ("session", "run", "status", "error")},
    **{name: f"spec.{name}" for name in (*OWN_COLUMNS[:4], *OPTIONS, *OWN_COLUMNS[4:])},
    **{column: f"spec.{option}" for option, column in RENAMED.items()},
    **{name: name for name in ("accuracy", "loss", "consensus_distance")},
    **{name: name for name in ("model_bytes", "steps", "rounds")},
    "sent_per_step_bytes": "per_step.sent_mean_bytes",
    "predicted_per_step_bytes": "per_step.predicted_mean_bytes",
    "predicted_framing_per_step_bytes": "per_step.predicted_framing_bytes",
    "sent_over_predicted": "per_step.ratio",
    "busiest_sent_per_step_bytes": "per_step.sent_max_bytes",
    "busiest_predicted_per_step_bytes": "per_step.predicted_max_bytes",
    "retransmitted_per_step_bytes": "per_step.retransmitted_mean_bytes",
    "train_sent_bytes": "bytes.train.sent_bytes",
    "train_received_bytes": "bytes.train.received_bytes",
    "train_payload_bytes": "bytes.train.sent_payload_bytes",
    "total_sent_bytes": "bytes.total.sent_bytes",
    "network_activity_sum": "network_activity_sum",
    "full_lr": "training.learning_rate.full",
    "label_skew": "training.shards.label_skew",
    "control_sent_bytes": "control_traffic.sent_mean_bytes",
    "control_bytes_per_second": "control_traffic.bytes_per_s",
    "pairs_interface_payload_bytes": "traffic_matrix.interfaces.payload_bytes",
    "pairs_interface_header_bytes": "traffic_matrix.interfaces.header_bytes",
    "pairs_closed_connections": "traffic_matrix.closed_connections",
    **{f"counter_{name}": f"counters.{name}" for name in ("worker_bytes", "kernel_bytes")},
    "counter_docker_bytes": "counters.docker_bytes",
    "counters_largest_difference": "counters.largest_difference",
    **{name: f"seconds.{name}" for name in ("step_median_s", "compute_median_s")},
    "exposed_communication_median_s": "seconds.exposed_communication_median_s",
    **{name: f"seconds.{name}" for name in ("communication_bound_s", "train_s", "total_s")},
    "wall_s": "seconds.wall_s",
    "predicted_step_s": "predicted.step_s",
    "predicted_train_s": "predicted.train_s",
    **{name: f"faults.{name}" for name in ("goodput", "participation", "committed_steps")},
    **{name: f"faults.{name}" for name in ("repeated_samples", "recovered_bytes", "generations")},
    "disturbed_train_s": "faults.train_s",
    "dilation": "spec.dilation",
    "fidelity": "fidelity.verdict",
    **{name: f"fidelity.{name}" for name in ("largest_wait_share", "least_cpu_share")},
    **{name: f"fidelity.{name}" for name in ("others_share", "steal_share")},
}
"""Column -> its key in summary.json (docs/run-folder.md)."""


class ShardLabel(Document):
    """How often a label occurs on a worker."""

    rank: int
    label: int
    count: int


class WorkerScore(Document):
    """Final accuracy of a worker's own model."""

    rank: int
    accuracy: float


PARTS: dict[str, tuple[str, type[Document]]] = {
    "curves": ("curve", CurvePoint),
    "nodes": ("seconds.by_node", NodeSeconds),
    "traffic": ("bytes.nodes", NodeTraffic),
    "pairs": ("traffic_matrix.pairs", PairTraffic),
    "links": ("links", MeasuredLink),
    "epochs": ("training.epochs", EpochCourse),
    "gpus": ("gpus", GpuUse),
    "progress": ("progress", WorkerProgress),
    "shards": ("training.shards.label_counts", ShardLabel),
    "scores": ("accuracy_by_worker", WorkerScore),
    "faults": ("faults.faults", FaultOutcome),
    "arrivals": ("arrivals", LateNode),
}
"""Frame of Runs -> the list of summary.json that it holds; its columns are the keys of an entry."""

DTYPES = {int: "Int64", float: "float64", bool: "boolean", str: "str"}


def dtype(hint: Any) -> str:
    """What pandas calls a type; all types may be null."""
    if get_origin(hint) is Annotated:
        return dtype(get_args(hint)[0])
    return DTYPES.get(hint) or dtype(_not_null(hint))


def type_of(key: str) -> Any:
    """The type of a key of summary.json."""
    kind: Any = Summary
    for name in key.split("."):
        kind = Experiment if name == "spec" else hints(_not_null(kind))[name]
    return kind


def find(summary: Summary, key: str) -> Any:
    """The value of a key; None where a part on the way is null."""
    value: Any = summary
    for name in key.split("."):
        value = getattr(value, name, None)
    return value


def _not_null(hint: Any) -> Any:
    """The last of several: of `auto` or a number, the number that it became."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[-1] if kinds else hint
