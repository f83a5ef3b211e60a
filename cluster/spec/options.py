"""Options whose values are names, and options that have no effect.

An option without effect is refused with the reason. In a sweep it goes to the runs in which it has
one, as passes go to the strategies that have them, and is refused where there is no such run.
"""

import math
from typing import Any

from cluster.spec import synthetic
from cluster.spec.catalogue import DATASETS, MODELS
from cluster.spec.own_code import is_foreign

OPTIMIZERS = {
    "sgd": "stochastic gradient descent with momentum",
    "adamw": "Adam with decoupled weight decay",
    "lars": "SGD whose step in each layer is in proportion to its weights, for large batches",
}
WITHOUT_MOMENTUM = {"adamw": "which has its own moments, 0.9 and 0.999"}
"""Optimizer -> why it takes no momentum."""
MOMENTUM = 0.5
"""Default of the optimizers that take one."""
LR_RULES = {
    "none": "the learning rate is not scaled",
    "linear": "times the batches per update: workers, times --local-steps for gradients",
    "sqrt": "times the square root of the number of workers",
    "auto": "the strategy's own: sqrt; none for one worker, --global-batch-size or --reduce sum",
}
SHUFFLES = {
    "epoch": "a new order of the samples every epoch",
    "fixed": "the first epoch's order every epoch, as where a sampler is not told the epoch",
}
TEST, HELD_OUT = "test", "held-out"
SCORED_ON = {
    TEST: "the data set's test samples",
    HELD_OUT: "training samples that --train-size leaves out: for choosing options, so that test"
    " samples have no part in it",
}
CROSS_ENTROPY = "cross-entropy"
"""The default of --loss; everything else is a function of the user's own."""
OFF: dict[str, Any] = {"lr_rule": "none", "warmup_epochs": 0.0}
"""Values that leave the learning rate alone: accepted everywhere, also where nothing is learned."""
LEARNING = (
    *("lr", "momentum", "weight_decay", "lr_rule", "warmup_epochs"),
    *("shuffle", "partition", "augment", "test_size", "score_on", "loss"),
)
"""Options that change only what is learned."""


def ineffective_options(model: str, optimizer: str) -> dict[str, str]:
    """Option -> which model or optimizer makes it ineffective, and why."""
    found = {}
    if optimizer in WITHOUT_MOMENTUM:
        found["momentum"] = f"optimizer {optimizer}, {WITHOUT_MOMENTUM[optimizer]}"
    if model.startswith(synthetic.PREFIX):
        found |= dict.fromkeys(LEARNING, f"model {model}, which learns nothing")
    if not is_foreign(model) and (model not in MODELS or not MODELS[model].has_buffers):
        found["buffers"] = f"model {model}, which has no buffers"
    return found


BITS_PER_NAT = 1 / math.log(2)


def is_judged_by_bits(dataset: str, loss: str) -> bool:
    """Whether every byte of a sample is predicted: judged by bits per byte, not by accuracy.

    The loss is then in nats; one of the user's own is in no known unit.
    """
    is_text = dataset in DATASETS and DATASETS[dataset].predictions > 1
    return is_text and loss == CROSS_ENTROPY
