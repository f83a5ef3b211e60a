"""How large a step is: the rate that was given, a rule for larger batches, and a rise at the beginning.

--lr is the rate for one worker's batch. Where gradients are averaged over N workers, an update is made of N
batches: it is less noisy, and there are N times fewer of them. The linear rule takes N times the rate for it,
which needs a warm-up (Goyal et al. 2017); the square-root rule keeps the noise of an update as it was. Where
parameters are averaged, every worker has made its own step with the rate for its own batch. Standard library
only: the report uses it too.
"""

from __future__ import annotations

import math

from cluster.spec import Experiment


def chosen_rule(spec: Experiment) -> str:
    """What `auto` is for this strategy. A sum of gradients is N times their mean already."""
    if spec.lr_rule != "auto":
        return spec.lr_rule
    return "linear" if spec.average == "gradients" and spec.reduce == "mean" else "none"


def batches_per_update(spec: Experiment) -> int:
    """Gradients that are accumulated over local steps are part of one update, too."""
    return spec.workers * (spec.local_steps if spec.average == "gradients" else 1)


def full_rate(spec: Experiment) -> float:
    """After the warm-up."""
    batches = batches_per_update(spec)
    factor = {"none": 1.0, "linear": float(batches), "sqrt": math.sqrt(batches)}
    return spec.lr * factor[chosen_rule(spec)]


def warmup_steps(spec: Experiment) -> int:
    return round(spec.warmup_epochs * spec.steps_per_epoch)


def learning_rate(spec: Experiment, step: int) -> float:
    """In the step of this number, from 0."""
    rising = warmup_steps(spec)
    share = (step + 1) / rising if step < rising else 1.0
    return full_rate(spec) * share
