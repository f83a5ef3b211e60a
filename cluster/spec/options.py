"""Options whose values are names: what there is, each with one line for the help."""

from typing import Any

COMPRESSIONS = ("none", "fp16", "bf16")
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
OFF: dict[str, Any] = {"lr_rule": "none", "warmup_epochs": 0.0}
"""Values that leave the learning rate alone: accepted everywhere, also where nothing is learned."""
