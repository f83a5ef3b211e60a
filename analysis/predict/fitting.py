"""Fits the cost model to measured runs.

Constants are not negative, and minimise the absolute relative errors, so that a disturbed run does
not count for more than one run. The slower of links and nodes counts in a run; which one that is,
is not known before. So a fit begins with the links where they are throttled, and reassigns runs
until none changes.
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from statistics import median

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from analysis.predict import cost_model
from analysis.predict.fitted import RANGES, Errors, Fitted
from analysis.predict.observations import Observation

FEWEST_RUNS = 4
"""Of a strategy, to fit it."""
MOST_TURNS = 20
ON_LINKS, ON_NODES = (1, 1, 0, 1), (1, 0, 1, 0)
"""Which of TIME_TERMS count in a run, by what is slower."""
REWEIGHTINGS = 30
LEAST_ERROR = 0.002
"""Relative: below it, errors have equal weight."""


def fit(observations: Sequence[Observation]) -> dict[str, cost_model.Constants]:
    """Constants of every strategy that has enough runs, and none to share with."""
    by_strategy: dict[str, list[Observation]] = {}
    for observation in observations:
        by_strategy.setdefault(observation.cluster.strategy, []).append(observation)
    return {
        strategy: _fit(runs)
        for strategy, runs in by_strategy.items()
        if len(runs) >= FEWEST_RUNS and cost_model.fitted_as(strategy) == strategy
    }


def _fit(runs: Sequence[Observation]) -> cost_model.Constants:
    framing = [run.sent_bytes - cost_model.predicted_sent_bytes(run.cluster) for run in runs]
    features = [cost_model.byte_features(run.cluster) for run in runs]
    return cost_model.Constants(
        time=_fit_time(runs),
        bytes=_least_errors(features, framing, [run.sent_bytes for run in runs]),
        runs=len(runs),
    )


def _fit_time(runs: Sequence[Observation]) -> tuple[float, ...]:
    features = [cost_model.time_features(run.cluster) for run in runs]
    saved = [cost_model.saved_s(run.cluster) for run in runs]
    measured = [_exchange_s(run) for run in runs]
    on_links = [path > 0 for _, path, _, _ in features]
    found: tuple[float, ...] = (0.0,) * len(cost_model.TIME_TERMS)
    for _ in range(MOST_TURNS):
        counts = np.where(np.array(on_links)[:, None], ON_LINKS, ON_NODES)
        whole = np.array(measured) + np.where(on_links, saved, 0.0)
        found = _least_errors(features * counts, whole, [run.step_s for run in runs])
        parts = map(functools.partial(cost_model.exchange_parts, found), features, saved)
        now = [each["links"] >= each["nodes"] and each["links"] > 0 for each in parts]
        if now == on_links:
            break
        on_links = now
    return found


def _exchange_s(run: Observation) -> float:
    """The time of an exchange that makes such a step."""
    last = cost_model.last_bucket(run.cluster)
    exchange = max(run.step_s - run.cluster.compute_s, 0.0) * run.cluster.local_steps / last
    return exchange if exchange * (1 - last) <= run.cluster.compute_s else run.step_s


def _least_errors(
    features: ArrayLike, wanted: ArrayLike, scale: Sequence[float]
) -> tuple[float, ...]:
    """Constants of 0 or more with the least absolute error relative to `scale`.

    By reweighted least squares. Columns are brought to one size, or the solver drops small ones.
    """
    a = np.asarray(features, float) / np.asarray(scale, float)[:, None]
    b = np.asarray(wanted, float) / np.asarray(scale, float)
    weights = np.ones(len(b))
    best = np.zeros(a.shape[1])
    for _ in range(REWEIGHTINGS):
        weighted = a * weights[:, None]
        size = np.linalg.norm(weighted, axis=0)
        size[size == 0] = 1.0
        best = nnls(weighted / size, b * weights)[0] / size
        weights = 1 / np.sqrt(np.maximum(np.abs(a @ best - b), LEAST_ERROR))
    return tuple(float(f"{value:.6g}") for value in best)


# ----------------------------------------------------------------------------------------- errors


def fit_to(observations: Sequence[Observation], held_out: Sequence[Observation] = ()) -> Fitted:
    """A model, and its errors on `held_out`; without, on each number of workers when left out."""
    model = Fitted(fit(observations), _ranges(observations), None)
    if held_out:
        pairs = [(model, run) for run in held_out]
    else:
        pairs = []
        for workers in {run.cluster.workers for run in observations}:
            others = [run for run in observations if run.cluster.workers != workers]
            without = Fitted(fit(others), model.ranges, None)
            pairs += [(without, run) for run in observations if run.cluster.workers == workers]
    return dataclasses.replace(model, errors=errors(pairs))


def errors(pairs: Iterable[tuple[Fitted, Observation]]) -> Errors | None:
    """Of each observation, by a model that was not fitted to it."""
    steps, sent = [], []
    for model, run in pairs:
        if model.knows(run.cluster.strategy):
            expected = model.forecast(run.cluster)
            steps.append(abs(expected.step_s / run.step_s - 1))
            sent.append(abs(expected.sent_bytes / run.sent_bytes - 1))
    if not steps:
        return None
    return Errors(
        len(steps), *(round(value, 5) for value in (median(steps), max(steps), median(sent)))
    )


def _ranges(observations: Sequence[Observation]) -> dict[str, tuple[float, float]]:
    found = {}
    for name in RANGES:
        values = [getattr(run.cluster, name) for run in observations]
        known = [value for value in values if value is not None]
        found[name] = (min(known, default=0), max(known, default=0))
    return found
