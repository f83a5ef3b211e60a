"""Fits the host's two costs to measured runs, and finds the errors of predictions.

The costs minimise the mean absolute relative error of step times, so that a disturbed run does not
count for more than one run. Runs on slow links hardly tell them: a cost that is e times the usual
one must make the error 0.1 points less. They are searched for (Nelder-Mead), from the usual ones:
what a simulation takes is no formula of them.
"""

import dataclasses
import datetime
import functools
from collections.abc import Sequence
from statistics import fmean, median

import numpy as np
from scipy.optimize import minimize

from analysis.predict.fitted import RANGES, Errors, Fitted
from analysis.predict.forecast import forecast
from analysis.predict.observations import Observation
from analysis.predict.simulation.nodes import Costs, Floats

FEWEST_RUNS = 4
USUAL = (8e-5, 6e-9)
"""A message and a byte, on two cores of a virtual machine."""
UNUSUAL = 1e-3
"""Added to the error, by the squared logarithm of a cost over the usual one."""
TRIES = 40
"""Simulations of all runs."""


def fit(observations: Sequence[Observation]) -> Costs:
    """By logarithms, so that costs are not negative."""
    start = np.log(np.array(USUAL))

    def error(logs: Floats) -> float:
        message_s, byte_s = map(float, np.exp(logs))
        costs = Costs(message_s, byte_s, encodes=True)
        unusual = UNUSUAL * float(np.sum((logs - start) ** 2))
        return fmean(abs(step_error(run, costs)) for run in observations) + unusual

    found = minimize(
        error,
        start,
        method="Nelder-Mead",
        options={"maxfev": TRIES, "initial_simplex": start + _SIMPLEX},
    )
    message_s, byte_s = (float(f"{value:.4g}") for value in np.exp(found.x))
    return Costs(message_s, byte_s, encodes=True)


_SIMPLEX = np.array([[0.0, 0.0], [0.7, 0.0], [0.0, 0.7]])


def step_error(run: Observation, costs: Costs) -> float:
    return forecast(run.cluster, costs).step_s / run.step_s - 1


def fit_to(observations: Sequence[Observation], held_out: Sequence[Observation] = ()) -> Fitted:
    """The costs, and errors on `held_out`; without, on each number of workers when left out."""
    costs = fit(observations)
    found = errors(held_out, costs) if held_out else _errors_left_out(observations)
    return Fitted(
        message_s=costs.message_s,
        byte_s=costs.byte_s,
        runs=len(observations),
        date=datetime.date.today().isoformat(),
        ranges=ranges([*observations, *held_out]),
        errors=found,
    )


def _errors_left_out(observations: Sequence[Observation]) -> Errors | None:
    """Of every half of the numbers of workers, by a fit to the other half."""
    counts = sorted({run.cluster.workers for run in observations})
    halves = [
        [run for run in observations if (run.cluster.workers in counts[::2]) == even]
        for even in (True, False)
    ]
    if min(map(len, halves)) < FEWEST_RUNS:
        return None
    pairs = [
        (run, costs)
        for mine, others in (halves, halves[::-1])
        for costs in [fit(others)]
        for run in mine
    ]
    return _summed([_of(run, costs) for run, costs in pairs])


@dataclasses.dataclass(frozen=True)
class RunErrors:
    """Of one run, signed."""

    step: float
    exchange: float | None
    sent: float


def _of(run: Observation, costs: Costs) -> RunErrors:
    found = forecast(run.cluster, costs)
    return RunErrors(
        found.step_s / run.step_s - 1,
        found.exchange_s / run.exchange_s - 1 if run.exchange_s else None,
        found.sent_bytes / run.sent_bytes - 1,
    )


def errors(observations: Sequence[Observation], costs: Costs) -> Errors | None:
    return _summed([_of(run, costs) for run in observations])


def _summed(found: Sequence[RunErrors]) -> Errors | None:
    exchanges = [abs(each.exchange) for each in found if each.exchange is not None]
    if not exchanges:
        return None
    rounded = functools.partial(round, ndigits=5)
    steps, sent = [abs(each.step) for each in found], [abs(each.sent) for each in found]
    return Errors(
        len(found),
        *(rounded(of(values)) for values in (steps, exchanges, sent) for of in (median, max)),
    )


def ranges(observations: Sequence[Observation]) -> dict[str, tuple[float, float]]:
    found = {}
    for name in RANGES:
        values = [getattr(run.cluster, name) for run in observations]
        present = [value for value in values if value is not None]
        found[name] = (min(present, default=0), max(present, default=0))
    return found
