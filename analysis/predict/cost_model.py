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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.theory import predicted_bytes as theory
from analysis.theory.predicted_bytes import WIRE_PER_PAYLOAD

TIME_TERMS = ("message_s", "wire", "byte_s", "fill")
SAME_AS = {"local-sgd": "allreduce"}
"""Its exchange is the other's."""
OVERLAPS = ("ddp",)
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


def group_size(cluster: Cluster) -> int:
    return cluster.workers if cluster.passes is None else min(cluster.passes + 1, cluster.workers)


def messages(cluster: Cluster) -> int:
    """One after the other, in one exchange."""
    n, g = cluster.workers, group_size(cluster)
    if n < 2 or g < 2 or cluster.strategy == "single":
        return 0
    depth = (n - 1).bit_length()
    special = {
        "allgather": n - 1,
        "gather-scatter": 2,
        "parameter-server": 2,
        "reduce-broadcast": 2 * depth,
        "pairwise": 1 if g == 2 else 2 * (g - 1),
    }
    return special.get(cluster.strategy, 2 * (n - 1))


def path_models(cluster: Cluster) -> float:
    """What must pass one link after the other, in units of M."""
    n, g = cluster.workers, group_size(cluster)
    if n < 2 or cluster.strategy == "single":
        return 0.0
    special: dict[str, Callable[[], float]] = {
        "allgather": lambda: n - 1,
        "gather-scatter": lambda: n - 1,
        "parameter-server": lambda: n,
        "reduce-broadcast": lambda: (n - 1).bit_length() + _down_the_tree(n),
        "pairwise": lambda: 2 * (g - 1) / g,
    }
    return float(special.get(cluster.strategy, lambda: 2 * (n - 1) / n)())


@functools.cache
def _down_the_tree(workers: int) -> int:
    """Children are sent to at once and share the link: all have it after as many M as there are of them."""
    children: dict[int, list[int]] = {}
    for rank in range(1, workers):
        children.setdefault(rank & (rank - 1), []).append(rank)
    took = [0] * workers
    for rank in reversed(range(workers)):
        below = children.get(rank, [])
        took[rank] = len(below) + max((took[child] for child in below), default=0)
    return took[0]


def last_bucket(cluster: Cluster) -> float:
    """The share of an exchange that begins when backward has ended."""
    size = cluster.model_bytes
    if cluster.strategy not in OVERLAPS or size <= FIRST_BUCKET_BYTES:
        return 1.0
    return min(size - FIRST_BUCKET_BYTES, BUCKET_BYTES) / size


def saved_s(cluster: Cluster) -> float:
    """Of an exchange, by what gathered in the buckets of throttled links before it."""
    if not cluster.burst_bytes or cluster.rate_mbit is None or not path_models(cluster):
        return 0.0
    per_byte_s = 8e-6 / cluster.rate_mbit
    if cluster.strategy == "reduce-broadcast":
        return messages(cluster) * min(cluster.burst_bytes, cluster.model_bytes) * per_byte_s
    pause_s = cluster.compute_s * cluster.local_steps
    return min(cluster.burst_bytes * per_byte_s, pause_s)


def leaves(cluster: Cluster) -> int:
    return {
        "gather-scatter": cluster.workers - 1,
        "parameter-server": cluster.workers,
    }.get(cluster.strategy, 0)


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
    found = theory.predict(
        strategy,
        workers=workers,
        model_bytes=unit,
        passes=passes,
        schedule=schedule,
        rounds=ROUNDS if passes else 1,
    )
    each = [
        sum(pair) / unit for pair in zip(found.sent_by_rank, found.received_by_rank, strict=True)
    ]
    busiest = max(found.sent_max, found.received_max)
    return Shares(found.sent_mean / unit, busiest / unit, max(each), sum(each), len(each))


def time_features(cluster: Cluster) -> list[float]:
    """What each of TIME_TERMS is multiplied with."""
    share = shares(cluster)
    said, worked = float(messages(cluster)), share.handled_most
    if cluster.cores is not None:
        said *= max(1.0, share.nodes / cluster.cores)
        worked = max(worked, share.handled / cluster.cores)
    per_byte_s = 0.0 if cluster.rate_mbit is None else 8e-6 / cluster.rate_mbit
    path = path_models(cluster) * cluster.model_bytes * WIRE_PER_PAYLOAD
    fill = leaves(cluster) * min(cluster.model_bytes, FILL_BYTES)
    return [said, path * per_byte_s, worked * cluster.model_bytes, fill * per_byte_s]


def _sent_bytes(cluster: Cluster) -> float:
    return shares(cluster).sent_mean * cluster.model_bytes


def byte_features(cluster: Cluster) -> list[float]:
    return [_sent_bytes(cluster), float(messages(cluster))]


def exchange_parts(
    time: Sequence[float], features: Sequence[float], saved: float
) -> dict[str, float]:
    """Seconds, by what they are spent on; of links and nodes only the longer counts."""
    said, path, worked, fill = (a * b for a, b in zip(time, features, strict=True))
    return {"messages": said, "links": max(path + fill - saved, 0.0), "nodes": worked}


def forecast(constants: Constants, cluster: Cluster) -> Forecast:
    parts = exchange_parts(constants.time, time_features(cluster), saved_s(cluster))
    parts["messages"] += messages(cluster) * cluster.delay_s
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


def fit(observations: Sequence[Observation]) -> dict[str, Constants]:
    """By strategy: those with enough runs."""
    found = {}
    for strategy in dict.fromkeys(one.cluster.strategy for one in observations):
        mine = [one for one in observations if one.cluster.strategy == strategy]
        if len(mine) >= FEWEST_RUNS and strategy not in ("single", *SAME_AS):
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
