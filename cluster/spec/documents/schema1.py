"""Documents of schema 1 -> schema 2, so that old run folders can still be read. One function each.

Values that have the wrong type are left as they are: whoever reads the result names them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.spec.documents.codec import SCHEMA, Json

COUNTERS = ("sent_bytes", "sent_packets", "received_bytes", "received_packets")
EVENT_KINDS = {"joined": "rank_order", "rest": "idle", "news": "notice"}
EVENT_KEYS = {
    "repeated": "retransmitted_bytes",
    "segments": "sent_segments",
    "sharers": "workers_on_host",
}
LINK_KEYS = {"asked": "target", "asked_mbit": "target_mbit"}
PER_STEP_KEYS = {
    **{name: f"{name}_bytes" for name in ("sent_mean", "sent_max")},
    **{name: f"{name}_bytes" for name in ("predicted_mean", "predicted_max")},
    "repeated_mean": "retransmitted_mean_bytes",
    "repeated_by_busiest": "retransmitted_by_busiest_bytes",
}
NODE_KEYS = {name: f"{name}_bytes" for name in ("train_sent", "train_received", "sent", "received")}
PAIR_KEYS = {
    **{name: f"{name}_bytes" for name in ("sent", "received", "predicted")},
    "talk": "control_bytes",
}
INTERFACE_KEYS = {
    "payload": "payload_bytes",
    "payload_by_node": "payload_bytes_by_node",
    "repeated_by_node": "retransmitted_bytes_by_node",
    "headers": "header_bytes",
}
SECONDS_KEYS = {
    name: f"{name}_s"
    for name in (
        *("total", "train", "step_median", "compute_median", "exposed_communication_median"),
        *("communication_bound", "waiting_median"),
    )
}


def upgrade_spec(spec: Json) -> Json:
    """Before there were rules for the learning rate it was left alone; AdamW has no momentum."""
    if spec.get("schema") != 1:
        return spec
    upgraded = {"lr_rule": "none", "warmup_epochs": 0.0} | spec | {"schema": SCHEMA}
    if upgraded.get("optimizer") == "adamw":
        upgraded["momentum"] = None
    return upgraded


def upgrade_event(event: Json) -> Json:
    """Events have no schema each: the old names are not in use any more."""
    counters = event.get("counters")
    if isinstance(counters, list) and len(counters) == len(COUNTERS):
        event = event | {"counters": dict(zip(COUNTERS, counters, strict=True))}
    if event.get("event") in EVENT_KINDS:
        event = event | {"event": EVENT_KINDS[event["event"]]}
    return event if EVENT_KEYS.keys().isdisjoint(event) else _renamed(event, EVENT_KEYS)


def upgrade_links(links: Json) -> Json:
    if links.get("schema") != 1:
        return links
    return links | {"schema": SCHEMA, "links": _renamed(links.get("links"), LINK_KEYS)}


def upgrade_environment(environment: Json) -> Json:
    return environment | {"schema": SCHEMA} if environment.get("schema") == 1 else environment


def upgrade_summary(summary: Json) -> Json:
    if summary.get("schema") != 1:
        return summary
    upgraded: Json = _renamed(summary, {"control": "control_traffic", "peers": "traffic_matrix"})
    upgraded["schema"] = SCHEMA
    changes: dict[str, Callable[[Json], Json]] = {
        "spec": lambda spec: upgrade_spec({"schema": 1} | spec),
        "bytes": _upgrade_bytes,
        "per_step": lambda part: _renamed(part, PER_STEP_KEYS),
        "control_traffic": lambda part: _renamed(
            part, {"sent_mean": "sent_mean_bytes", "per_second": "bytes_per_s"}
        ),
        "traffic_matrix": _upgrade_matrix,
        "counters": lambda part: _renamed(
            part,
            {f"{name}": f"{name}_bytes" for name in ("worker", "kernel", "docker")}
            | {"sharers": "workers_per_host"},
        ),
        "seconds": lambda part: (
            _renamed(part, SECONDS_KEYS)
            | {"by_node": _renamed(part.get("by_node", []), SECONDS_KEYS)}
        ),
        "training": _upgrade_training,
    }
    for name, change in changes.items():
        if isinstance(upgraded.get(name), dict):
            upgraded[name] = change(upgraded[name])
    upgraded["links"] = _renamed(upgraded.get("links", []), LINK_KEYS)
    return upgraded


def _upgrade_bytes(part: Json) -> Json:
    ways = {"sent": "sent_bytes", "received": "received_bytes"}
    phases = {name: _renamed(traffic, ways) for name, traffic in part.items() if name != "nodes"}
    return phases | {"nodes": _renamed(part.get("nodes", []), NODE_KEYS)}


def _upgrade_matrix(part: Json) -> Json:
    upgraded: Json = _renamed(
        part, {"elsewhere": "other_destinations_bytes", "closed": "closed_connections"}
    )
    upgraded["pairs"] = _renamed(part.get("pairs"), PAIR_KEYS)
    upgraded["interfaces"] = _renamed(part.get("interfaces"), INTERFACE_KEYS)
    return upgraded


def _upgrade_training(part: Json) -> Json:
    names = {"loss": "train_loss", "accuracy": "train_accuracy"}
    return part | {
        "epochs": _renamed(part.get("epochs", []), names),
        "shards": _renamed(part.get("shards"), {"unevenness": "label_skew"}),
    }


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """The keys of an object, or of every object in a list."""
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, dict):
        return {names.get(key, key): item for key, item in value.items()}
    return value
