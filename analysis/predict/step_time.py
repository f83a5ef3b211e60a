"""The step time of a run that is planned, by the fitted cost model. Pure."""

import functools

from analysis.predict.cost_model import Cluster
from analysis.predict.fitted import load
from cluster.spec import synthetic
from cluster.spec.catalogue import MODELS
from cluster.spec.codecs import FLOAT_BYTES, parse_codec
from cluster.spec.experiment import Experiment
from cluster.spec.own_code import is_foreign, is_own
from cluster.spec.strategies import facts_of

USUAL, USUAL_BYTES = "allreduce", 4_000_000
"""In place of a strategy and a model of the user's own, of which nothing is known before a run."""
MOST_WORKERS = 64
"""Of more, the message schedule of a run would take seconds to follow."""


def step_time(experiment: Experiment, compute_s: float, cores: int) -> float:
    """Seconds of a step that computes so long, with nodes that share this many cores."""
    if not facts_of(experiment.strategy).exchanges or experiment.workers == 1:
        return compute_s
    return _fitted().forecast(_cluster(experiment, compute_s, cores)).step_s


_fitted = functools.cache(load)


def _cluster(experiment: Experiment, compute_s: float, cores: int) -> Cluster:
    workers = min(experiment.workers, MOST_WORKERS)
    passes = experiment.passes
    return Cluster(
        strategy=USUAL if is_own(experiment.strategy) else experiment.strategy,
        workers=workers,
        model_bytes=parse_codec(experiment.compress).encoded_bytes(
            _model_bytes(experiment.model) // FLOAT_BYTES
        ),
        rate_mbit=experiment.slowest_mbit,
        delay_s=max((link.delay_s for link in experiment.links.values()), default=0.0),
        passes=None if passes is None else min(passes, workers - 1),
        schedule=experiment.schedule,
        local_steps=experiment.local_steps,
        compute_s=compute_s,
        cores=cores,
    )


def _model_bytes(model: str) -> int:
    if model in MODELS:
        return 4 * MODELS[model].parameters
    if is_foreign(model):
        return USUAL_BYTES
    return synthetic.parse(model).size_bytes
