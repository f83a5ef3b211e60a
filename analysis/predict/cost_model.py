"""A cost model: what a step takes on any cluster, by constants fitted to measured runs. Pure.

An exchange of M bytes among N workers takes T = messages + the longer of links and nodes:

    messages  (message_s + delay) x steps
    links     (wire x path x 1514/1448 + fill x leaves x min(M, FILL_BYTES)) x 8 / rate - saved
    nodes     byte_s x worked

    steps     messages that follow each other: 2(N-1) on a ring, N-1 for an all-gather, ...
    path      bytes that must pass one link after the other: 2(N-1)/N M on a ring, (N-1) M at the
              root of a star, in a tree what its levels pass on in turn. `wire` is 1 where a link
              is used as well as possible
    worked    bytes copied and added up by the busiest core. A node has a core of its own, but
              nodes of an emulated cluster share the machine's: there, all bytes over the cores
    leaves    that send to one root at once (incast): each fills the pipeline before the root's
              answers flow
    delay     of the links, each way
    saved     by links that are throttled by a token bucket. It fills up to `burst_bytes` while a
              step computes, and what it holds passes at once; in a tree, where links are idle
              while messages wait for others, every message finds it full

Steps, path and leaves follow from the strategy's message schedule (analysis/theory). Links and
cores work at the same time, so the slower of the two counts. A step takes its computing time, and
T every `local_steps` steps. A strategy that overlaps backward exchanges while it computes, except
for its last bucket, which is complete when backward ends: a small model is a single bucket.

    sent bytes    predicted bytes x (1 + framing) + message_bytes x steps
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.theory.critical_path import busiest_bytes, leaves, path_bytes
from analysis.theory.predicted_bytes import WIRE_PER_PAYLOAD, predict
from cluster.spec.schedules.messages import LEAST_CHUNK_BYTES, Setting, step_count
from cluster.spec.strategies import STRATEGIES, facts_of

TIME_TERMS = ("message_s", "wire", "byte_s", "fill")
FIRST_BUCKET_BYTES, BUCKET_BYTES = 2**20, 25 * 2**20
"""Defaults of torch's DistributedDataParallel."""
FILL_BYTES = 4 * LEAST_CHUNK_BYTES
"""Four chunks of a pipeline."""
ROUNDS = 200
"""Rounds of random groups over which bytes are averaged."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster and a workload, as far as the model needs them."""

    strategy: str
    workers: int
    model_bytes: int
    rate_mbit: float | None
    """None: the link is not throttled."""
    delay_s: float = 0.0
    passes: int | None = None
    schedule: str | None = None
    local_steps: int = 1
    compute_s: float = 0.0
    burst_bytes: int = 0
    """That pass at once after a pause, where links are throttled by a token bucket."""
    cores: int | None = None
    """That all nodes share, where they are emulated; None: every node has its own."""


@dataclass(frozen=True)
class Constants:
    """Of one strategy."""

    time: tuple[float, ...]
    """By TIME_TERMS."""
    bytes: tuple[float, ...]
    """framing and message_bytes."""
    runs: int


@dataclass(frozen=True)
class Forecast:
    step_s: float
    exchange_s: float
    sent_bytes: float
    """Payload, per worker and exchange."""
    busiest_bytes: float
    limit: str
    """What most of an exchange is spent on: links, nodes or messages."""


def fitted_as(strategy: str) -> str:
    """The first strategy that exchanges the same messages in the same way: its constants apply."""
    facts = facts_of(strategy)
    return next(
        name
        for name, other in STRATEGIES.items()
        if other.messages == facts.messages and other.overlaps_backward == facts.overlaps_backward
    )


# --------------------------------------------------------------------------------------- features


@dataclass(frozen=True)
class Exchange:
    """What a strategy's message schedule says of an exchange; bytes are in units of M."""

    steps: int
    """Messages that follow each other."""
    path: float
    """What must pass one link after the other."""
    leaves: int
    """That send to one root at once, in a pipeline."""
    pauses: bool
    """Whether links are idle while messages wait for others."""
    sent_mean: float
    busiest: float
    """Sent or received, by the node with most."""
    handled_most: float
    """Sent and received, by the node with most."""
    handled: float
    """By all nodes."""
    nodes: int


def exchange_of(cluster: Cluster) -> Exchange:
    return _exchange_of(cluster.strategy, cluster.workers, cluster.passes, cluster.schedule)


@functools.cache
def _exchange_of(strategy: str, workers: int, passes: int | None, schedule: str | None) -> Exchange:
    """Messages are those of a full group: on the ring schedule the first group is full."""
    unit = 10**6
    setting = Setting(workers=workers, model_bytes=unit, passes=passes, schedule="ring")
    messages = facts_of(strategy).messages(0, setting)
    path = path_bytes(messages) / unit
    setting = Setting(workers=workers, model_bytes=unit, passes=passes, schedule=schedule)
    predicted = predict(strategy, setting, ROUNDS if passes else 1)
    by_node = [
        (sent + received) / unit
        for sent, received in zip(predicted.sent_by_rank, predicted.received_by_rank, strict=True)
    ]
    return Exchange(
        steps=step_count(messages),
        path=float(path),
        leaves=len(leaves(messages)) if any(flow.parts > 1 for flow in messages) else 0,
        pauses=path > busiest_bytes(messages) / unit,
        sent_mean=predicted.sent_mean / unit,
        busiest=max(predicted.sent_max, predicted.received_max) / unit,
        handled_most=max(by_node),
        handled=sum(by_node),
        nodes=len(by_node),
    )


def last_bucket(cluster: Cluster) -> float:
    """The share of an exchange that begins when backward has ended."""
    size = cluster.model_bytes
    if not facts_of(cluster.strategy).overlaps_backward or size <= FIRST_BUCKET_BYTES:
        return 1.0
    return min(size - FIRST_BUCKET_BYTES, BUCKET_BYTES) / size


def saved_s(cluster: Cluster) -> float:
    """Of an exchange, by what the token buckets of throttled links held when it began."""
    exchange = exchange_of(cluster)
    if not cluster.burst_bytes or cluster.rate_mbit is None or not exchange.path:
        return 0.0
    per_byte_s = 8e-6 / cluster.rate_mbit
    if exchange.pauses:
        return exchange.steps * min(cluster.burst_bytes, cluster.model_bytes) * per_byte_s
    pause_s = cluster.compute_s * cluster.local_steps
    return min(cluster.burst_bytes * per_byte_s, pause_s)


def time_features(cluster: Cluster) -> list[float]:
    """What each of TIME_TERMS is multiplied with."""
    exchange = exchange_of(cluster)
    steps, worked = float(exchange.steps), exchange.handled_most
    if cluster.cores is not None:
        steps *= max(1.0, exchange.nodes / cluster.cores)
        worked = max(worked, exchange.handled / cluster.cores)
    per_byte_s = 0.0 if cluster.rate_mbit is None else 8e-6 / cluster.rate_mbit
    path = exchange.path * cluster.model_bytes * WIRE_PER_PAYLOAD
    fill = exchange.leaves * min(cluster.model_bytes, FILL_BYTES)
    return [steps, path * per_byte_s, worked * cluster.model_bytes, fill * per_byte_s]


def predicted_sent_bytes(cluster: Cluster) -> float:
    """Payload per worker and exchange, without framing."""
    return exchange_of(cluster).sent_mean * cluster.model_bytes


def byte_features(cluster: Cluster) -> list[float]:
    return [predicted_sent_bytes(cluster), float(exchange_of(cluster).steps)]


# --------------------------------------------------------------------------------------- forecast


def exchange_parts(
    time: Sequence[float], features: Sequence[float], saved: float
) -> dict[str, float]:
    """Seconds, by what they are spent on; of links and nodes only the longer counts."""
    messages, path, worked, fill = (a * b for a, b in zip(time, features, strict=True))
    return {"messages": messages, "links": max(path + fill - saved, 0.0), "nodes": worked}


def forecast(constants: Constants, cluster: Cluster) -> Forecast:
    parts = exchange_parts(constants.time, time_features(cluster), saved_s(cluster))
    parts["messages"] += exchange_of(cluster).steps * cluster.delay_s
    exchange = parts["messages"] + max(parts["links"], parts["nodes"])
    last = last_bucket(cluster)
    hidden = exchange * (1 - last)
    step = max(cluster.compute_s, hidden) + exchange * last / cluster.local_steps
    sent = predicted_sent_bytes(cluster)
    framing = sum(a * b for a, b in zip(byte_features(cluster), constants.bytes, strict=True))
    factor = 1 + framing / sent if sent else 1.0
    busiest = exchange_of(cluster).busiest * cluster.model_bytes
    limit = max(parts, key=lambda name: parts[name])
    return Forecast(step, exchange, sent * factor, busiest * factor, limit)
