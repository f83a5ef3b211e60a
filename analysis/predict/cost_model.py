"""What a step takes on any cluster: a cost model for each strategy, fitted to measured runs. Pure.

An exchange of M bytes among N workers takes

    T  =  (message_s + delay) x messages  +  the longer of
            on the links   (wire x path bytes x 1514/1448 + fill x leaves x least(M, FILL_BYTES)) x 8 / rate - saved
            in the nodes   byte_s x worked bytes

    messages      that a node sends one after the other: 2(N-1) on a ring, N-1 for an all-gather, ...
    path bytes    what must pass one link after the other: 2(N-1)/N M on a ring, (N-1) M at the root of a star, and in
                  a tree what its levels pass on one by one. `wire` is 1 where a link is used as well as it can be
    worked bytes  copied and added up by the busiest core: a node has its own, but nodes of an emulated cluster share
                  the machine's, so there it is all nodes' bytes over the cores
    leaves        that send to one root at once (incast): each fills the pipeline before the root's answers flow
    delay         of the links, each way
    saved         by links that are throttled by a token bucket: what has gathered in it during a pause passes at once.
                  It holds `burst_bytes`, and gathers while a step computes; in a tree, where a link waits for the
                  others, each hop finds it full. A link that is slow by nature saves nothing

Links and cores work at the same time, so the slower of the two counts, and a fit has to find out which it is for
each run: it begins with the links where they are throttled and changes sides until nothing changes. A step is the
time it computes, and T every `local_steps` steps. ddp exchanges while it computes, but for its last bucket, which is
complete when backward ends: a small model is one bucket, and 16 MB are all but one MiB in the last. Constants are not
negative and come from least absolute relative errors, so that a run that something else disturbed does not count for
more than one run. Links, model, N and M are all that is asked.

    sent bytes    theory's x (1 + framing) + message_bytes x messages
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.theory.critical_path import busiest_bytes, leaves, path_bytes
from analysis.theory.predicted_bytes import WIRE_PER_PAYLOAD, predict
from cluster.spec.message_schedules import Setting, step_count
from cluster.spec.strategies import STRATEGIES, facts_of

TIME_TERMS = ("message_s", "wire", "byte_s", "fill")
FIRST_BUCKET_BYTES, BUCKET_BYTES = 2**20, 25 * 2**20
"""Of torch's DistributedDataParallel, unless it is told otherwise."""
FEWEST_RUNS = 4
"""Of a strategy, to fit it."""
FILL_BYTES = 128 * 1024
"""Four chunks of a pipeline (workloads/comm/messages.py)."""
MOST_TURNS = 20
ROUNDS = 200
"""Rounds of random groups that the mean bytes are taken over."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What is asked of the model."""

    strategy: str
    workers: int
    model_bytes: int
    rate_mbit: float | None
    """None is a link that nobody throttles."""
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
class Observation:
    cluster: Cluster
    step_s: float
    sent_bytes: float
    """Payload, per worker and exchange."""
    run: str = ""


@dataclass(frozen=True)
class Constants:
    """Of one strategy."""

    time: tuple[float, ...]
    bytes: tuple[float, ...]
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


@dataclass(frozen=True)
class Exchange:
    """What the message schedule of a strategy says of an exchange, in units of M."""

    steps: int
    """Messages that follow each other."""
    path_models: float
    """What must pass one link after the other."""
    leaves: int
    """That send to one root at once, in a pipeline."""
    pauses: bool
    """Whether links are idle while messages wait for others."""


def exchange_of(cluster: Cluster) -> Exchange:
    return _exchange_of(cluster.strategy, cluster.workers, cluster.passes)


@functools.cache
def _exchange_of(strategy: str, workers: int, passes: int | None) -> Exchange:
    """With passes, of a full group: neighbours on a ring, where the first group is full."""
    setting = Setting(workers=workers, model_bytes=1, passes=passes, schedule="ring")
    messages = facts_of(strategy).messages(0, setting)
    path = path_bytes(messages)
    pipelined = any(flow.pipelined for flow in messages)
    return Exchange(
        steps=step_count(messages),
        path_models=float(path),
        leaves=len(leaves(messages)) if pipelined else 0,
        pauses=path > busiest_bytes(messages),
    )


def last_bucket(cluster: Cluster) -> float:
    """The share of an exchange that begins when backward has ended."""
    size = cluster.model_bytes
    if not facts_of(cluster.strategy).overlaps_backward or size <= FIRST_BUCKET_BYTES:
        return 1.0
    return min(size - FIRST_BUCKET_BYTES, BUCKET_BYTES) / size


def saved_s(cluster: Cluster) -> float:
    """Of an exchange, by what gathered in the token buckets of throttled links before it."""
    exchange = exchange_of(cluster)
    if not cluster.burst_bytes or cluster.rate_mbit is None or not exchange.path_models:
        return 0.0
    per_byte_s = 8e-6 / cluster.rate_mbit
    if exchange.pauses:
        return exchange.steps * min(cluster.burst_bytes, cluster.model_bytes) * per_byte_s
    pause_s = cluster.compute_s * cluster.local_steps
    return min(cluster.burst_bytes * per_byte_s, pause_s)


@dataclass(frozen=True)
class Shares:
    """Theory's bytes of an exchange, in units of M: they are proportional to it."""

    sent_mean: float
    busiest: float
    """Sent or received, of the node with most."""
    handled_most: float
    """Sent and received, of the node with most."""
    handled: float
    """Of all nodes."""
    nodes: int


def shares(cluster: Cluster) -> Shares:
    return _shares(cluster.strategy, cluster.workers, cluster.passes, cluster.schedule)


@functools.cache
def _shares(strategy: str, workers: int, passes: int | None, schedule: str | None) -> Shares:
    unit = 10**6
    setting = Setting(workers=workers, model_bytes=unit, passes=passes, schedule=schedule)
    found = predict(strategy, setting, ROUNDS if passes else 1)
    each = [
        sum(pair) / unit for pair in zip(found.sent_by_rank, found.received_by_rank, strict=True)
    ]
    busiest = max(found.sent_max, found.received_max)
    return Shares(found.sent_mean / unit, busiest / unit, max(each), sum(each), len(each))


def time_features(cluster: Cluster) -> list[float]:
    """What each of TIME_TERMS is multiplied with."""
    share, exchange = shares(cluster), exchange_of(cluster)
    steps, worked = float(exchange.steps), share.handled_most
    if cluster.cores is not None:
        steps *= max(1.0, share.nodes / cluster.cores)
        worked = max(worked, share.handled / cluster.cores)
    per_byte_s = 0.0 if cluster.rate_mbit is None else 8e-6 / cluster.rate_mbit
    path = exchange.path_models * cluster.model_bytes * WIRE_PER_PAYLOAD
    fill = exchange.leaves * min(cluster.model_bytes, FILL_BYTES)
    return [steps, path * per_byte_s, worked * cluster.model_bytes, fill * per_byte_s]


def _sent_bytes(cluster: Cluster) -> float:
    return shares(cluster).sent_mean * cluster.model_bytes


def byte_features(cluster: Cluster) -> list[float]:
    return [_sent_bytes(cluster), float(exchange_of(cluster).steps)]


def exchange_parts(
    time: Sequence[float], features: Sequence[float], saved: float
) -> dict[str, float]:
    """Seconds, by what they are spent on; of links and nodes only the longer counts."""
    said, path, worked, fill = (a * b for a, b in zip(time, features, strict=True))
    return {"messages": said, "links": max(path + fill - saved, 0.0), "nodes": worked}


def forecast(constants: Constants, cluster: Cluster) -> Forecast:
    parts = exchange_parts(constants.time, time_features(cluster), saved_s(cluster))
    parts["messages"] += exchange_of(cluster).steps * cluster.delay_s
    exchange = parts["messages"] + max(parts["links"], parts["nodes"])
    last = last_bucket(cluster)
    hidden = exchange * (1 - last)
    step = max(cluster.compute_s, hidden) + exchange * last / cluster.local_steps
    sent = _sent_bytes(cluster)
    framing = sum(a * b for a, b in zip(byte_features(cluster), constants.bytes, strict=True))
    factor = 1 + framing / sent if sent else 1.0
    busiest = shares(cluster).busiest * cluster.model_bytes
    limit = max(parts, key=lambda name: parts[name])
    return Forecast(step, exchange, sent * factor, busiest * factor, limit)


# -------------------------------------------------------------------------------------------- fitting


def fitted_as(strategy: str) -> str:
    """The first strategy that exchanges the same messages in the same way: its constants apply."""
    facts = facts_of(strategy)
    return next(
        name
        for name, other in STRATEGIES.items()
        if other.messages == facts.messages and other.overlaps_backward == facts.overlaps_backward
    )


def fit(observations: Sequence[Observation]) -> dict[str, Constants]:
    """By strategy: those with enough runs."""
    found = {}
    for strategy in dict.fromkeys(one.cluster.strategy for one in observations):
        mine = [one for one in observations if one.cluster.strategy == strategy]
        if len(mine) >= FEWEST_RUNS and fitted_as(strategy) == strategy:
            found[strategy] = _fit(mine)
    return found


def _fit(observations: Sequence[Observation]) -> Constants:
    exchange = [_exchange_s(one) for one in observations]
    sent = [one.sent_bytes - _sent_bytes(one.cluster) for one in observations]
    return Constants(
        time=_fit_time(
            [time_features(one.cluster) for one in observations],
            [saved_s(one.cluster) for one in observations],
            exchange,
            [one.step_s for one in observations],
        ),
        bytes=_least(
            [byte_features(one.cluster) for one in observations],
            sent,
            [one.sent_bytes for one in observations],
        ),
        runs=len(observations),
    )


def _fit_time(
    features: Sequence[Sequence[float]],
    saved: Sequence[float],
    wanted: Sequence[float],
    scale: Sequence[float],
) -> tuple[float, ...]:
    """Each run counts for its links or for its nodes, whichever is slower; which it is, is found by turns."""
    on_links = [one[1] > 0 for one in features]
    found: tuple[float, ...] = (0.0,) * len(TIME_TERMS)
    for _ in range(MOST_TURNS):
        sided = [
            [said, path, 0.0, fill] if links else [said, 0.0, worked, 0.0]
            for (said, path, worked, fill), links in zip(features, on_links, strict=True)
        ]
        whole = [
            one + (free if links else 0.0)
            for one, free, links in zip(wanted, saved, on_links, strict=True)
        ]
        found = _least(sided, whole, scale)
        parts = [
            exchange_parts(found, one, free) for one, free in zip(features, saved, strict=True)
        ]
        now = [one["links"] >= one["nodes"] and one["links"] > 0 for one in parts]
        if now == on_links:
            break
        on_links = now
    return found


def _exchange_s(one: Observation) -> float:
    """The time of an exchange that makes such a step."""
    last = last_bucket(one.cluster)
    exchange = max(one.step_s - one.cluster.compute_s, 0.0) * one.cluster.local_steps / last
    return exchange if exchange * (1 - last) <= one.cluster.compute_s else one.step_s


def _least(
    features: Sequence[Sequence[float]], wanted: Sequence[float], scale: Sequence[float]
) -> tuple[float, ...]:
    """Constants of 0 or more with the least absolute error relative to `scale`, by reweighted squares."""
    a = np.asarray(features, float) / np.asarray(scale, float)[:, None]
    b = np.asarray(wanted, float) / np.asarray(scale, float)
    weights = np.ones(len(b))
    best = np.zeros(a.shape[1])
    for _ in range(30):
        best = _nonnegative(a * weights[:, None], b * weights)
        weights = 1 / np.sqrt(np.maximum(np.abs(a @ best - b), 0.002))
    return tuple(float(f"{value:.6g}") for value in best)


def _nonnegative(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares with constants of 0 or more: of all sets that may be above 0 the best that is. They are few."""
    best, least = np.zeros(a.shape[1]), float(b @ b)
    used = [at for at in range(a.shape[1]) if np.any(a[:, at])]
    for count in range(1, len(used) + 1):
        for chosen in itertools.combinations(used, count):
            size = np.linalg.norm(
                a[:, chosen], axis=0
            )  # of one size, or the solver drops small ones
            solved = np.linalg.lstsq(a[:, chosen] / size, b, rcond=None)[0] / size
            missed = a[:, chosen] @ solved - b
            if np.all(solved >= 0) and float(missed @ missed) < least * (1 - 1e-9):
                best, least = np.zeros(a.shape[1]), float(missed @ missed)
                best[list(chosen)] = solved
    return best
