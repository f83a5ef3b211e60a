"""Documents of schema 1 -> schema 2, so that old run folders can still be read. A function each.

Values of a wrong type are left as they are: whoever reads the result names them.
"""

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


def _with_unit(unit: str, *names: str) -> dict[str, str]:
    return {name: f"{name}_{unit}" for name in names}


TRAFFIC_KEYS = _with_unit("bytes", "sent", "received")
MEDIANS = ("step_median", "compute_median", "exposed_communication_median", "waiting_median")
SUMMARY_KEYS = {
    "": {"control": "control_traffic", "peers": "traffic_matrix"},
    **{f".bytes.{phase}": TRAFFIC_KEYS for phase in ("setup", "train", "evaluate", "finish")},
    ".bytes.total": TRAFFIC_KEYS,
    ".bytes.nodes": TRAFFIC_KEYS | _with_unit("bytes", "train_sent", "train_received"),
    ".per_step": {
        **_with_unit("bytes", "sent_mean", "sent_max", "predicted_mean", "predicted_max"),
        "repeated_mean": "retransmitted_mean_bytes",
        "repeated_by_busiest": "retransmitted_by_busiest_bytes",
    },
    ".control": {"sent_mean": "sent_mean_bytes", "per_second": "bytes_per_s"},
    ".peers": {"elsewhere": "other_destinations_bytes", "closed": "closed_connections"},
    ".peers.pairs": TRAFFIC_KEYS | {"predicted": "predicted_bytes", "talk": "control_bytes"},
    ".peers.interfaces": {
        "payload": "payload_bytes",
        "payload_by_node": "payload_bytes_by_node",
        "repeated_by_node": "retransmitted_bytes_by_node",
        "headers": "header_bytes",
    },
    ".counters": {
        **_with_unit("bytes", "worker", "kernel", "docker"),
        "sharers": "workers_per_host",
    },
    ".seconds": _with_unit("s", "total", "train", "communication_bound", *MEDIANS),
    ".seconds.by_node": _with_unit("s", *MEDIANS),
    ".links": LINK_KEYS,
    ".training.shards": {"unevenness": "label_skew"},
    ".training.epochs": {"loss": "train_loss", "accuracy": "train_accuracy"},
}
"""Where -> old key -> new key."""


def upgrade_spec(spec: Json) -> Json:
    """Before there were rules for the learning rate it was left alone; AdamW has no momentum."""
    if not _is_schema_1(spec):
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
    return event if EVENT_KEYS.keys().isdisjoint(event) else _renamed(event, {"": EVENT_KEYS})


def upgrade_links(links: Json) -> Json:
    return _upgraded(links, {".links": LINK_KEYS})


def upgrade_environment(environment: Json) -> Json:
    return _upgraded(environment, {})


def upgrade_summary(summary: Json) -> Json:
    upgraded = _upgraded(summary, SUMMARY_KEYS)
    spec = upgraded.get("spec")
    if upgraded is summary or not isinstance(spec, dict):
        return upgraded
    return upgraded | {"spec": upgrade_spec({"schema": 1} | spec)}


def _upgraded(document: Json, names: dict[str, dict[str, str]]) -> Json:
    if not _is_schema_1(document):
        return document
    upgraded: Json = _renamed(document, names)
    return upgraded | {"schema": SCHEMA}


def _is_schema_1(document: Json) -> bool:
    """True is no 1."""
    schema = document.get("schema")
    return type(schema) is int and schema == 1


def _renamed(value: Any, names: dict[str, dict[str, str]], where: str = "") -> Any:
    """With new keys at every level; the entries of a list are where the list is."""
    if isinstance(value, list):
        return [_renamed(item, names, where) for item in value]
    if isinstance(value, dict):
        here = names.get(where, {})
        return {here.get(k, k): _renamed(item, names, f"{where}.{k}") for k, item in value.items()}
    return value
