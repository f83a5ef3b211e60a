"""The step time of a run that is planned, simulated."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from analysis.predict.cluster_links import links_of
from cluster.spec import synthetic
from cluster.spec.catalogue import MODELS
from cluster.spec.documents.events import Hello
from cluster.spec.exchange.codecs import FLOAT_BYTES, parse_codec
from cluster.spec.exchange.strategies import facts_of
from cluster.spec.experiment import Experiment
from cluster.spec.own_code import is_foreign, is_own

if TYPE_CHECKING:
    from analysis.predict.forecast import Forecast

USUAL, USUAL_BYTES = "allreduce", 4_000_000
"""In place of a strategy and a model of the user's own, of which nothing is known before a run."""
MOST_WORKERS, ROUNDS = 16, 2
"""A plan is crude, and quick: more are not simulated."""


def step_time(experiment: Experiment, compute_s: float, cores: int) -> float:
    """Seconds of a step that computes so long, with nodes that share this many cores."""
    run = experiment
    facts = facts_of(run.strategy)
    if not facts.exchanges or facts.unpaced or run.workers == 1:
        return compute_s
    workers = min(run.workers, MOST_WORKERS)
    return _simulated(
        strategy=USUAL if is_own(run.strategy) else run.strategy,
        workers=workers,
        model_bytes=_model_bytes(run.model),
        **{**links_of(run, workers), "traces": ()},  # a trace is for a whole run
        compute_s=compute_s,
        compress="none" if parse_codec(run.compress).rank else run.compress,  # shapes: unknown
        passes=None if run.passes is None else min(run.passes, workers - 1),
        schedule=None if run.passes is None else "ring",
        local_steps=run.local_steps,
        cores=cores,
        rounds=ROUNDS,
    )


def round_times(experiment: Experiment, hello: Hello, compute_s: float) -> Forecast:
    """Of a run whose messages are known: on its links, with a core for each worker."""
    from analysis.predict import fitted
    from analysis.predict.forecast import Cluster

    run = experiment
    return fitted.load().forecast(
        Cluster(
            strategy=run.strategy,
            workers=run.workers,
            model_bytes=FLOAT_BYTES * (hello.parameters or 1),
            **{**links_of(run), "traces": ()},
            compute_s=compute_s,
            compress=run.compress,
            passes=run.passes,
            schedule=run.schedule,
            seed=run.seed,
            local_steps=run.local_steps,
            bucket_bytes=tuple(hello.bucket_bytes),
            rounds=ROUNDS,
        )
    )


@functools.cache
def _simulated(**cluster: object) -> float:
    """Computing includes what a straggler takes longer (cluster/sweep/estimate.py)."""
    from analysis.predict import fitted  # numpy: not needed before there are runs to plan
    from analysis.predict.forecast import Cluster

    return fitted.load().forecast(Cluster(**cluster)).step_s  # type: ignore[arg-type]


def _model_bytes(model: str) -> int:
    if model in MODELS:
        return FLOAT_BYTES * MODELS[model].parameters
    if is_foreign(model):
        return USUAL_BYTES
    return synthetic.parse(model).size_bytes
