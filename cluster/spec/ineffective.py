"""Options that would turn nothing: which, and why. Pure; standard library only.

A option that is given and does nothing is refused with the reason. In a sweep it goes to the runs in which it
does something, as passes go to the strategies that have them, and is refused where there is no such run.
"""

from __future__ import annotations

from cluster.spec import synthetic
from cluster.spec.catalogue import MODELS

LEARNING = (
    *("lr", "momentum", "weight_decay", "lr_rule", "warmup_epochs"),
    *("shuffle", "partition", "augment", "test_size"),
)
"""What changes only what is learned."""
WITHOUT_MOMENTUM = {"adamw": "which has its own moments, 0.9 and 0.999"}


def idle(model: str, optimizer: str) -> dict[str, str]:
    """Option -> in which of the two it finds nothing to change, and why."""
    found = {}
    if optimizer in WITHOUT_MOMENTUM:
        found["momentum"] = f"optimizer {optimizer}, {WITHOUT_MOMENTUM[optimizer]}"
    if model.startswith(synthetic.PREFIX):
        found |= dict.fromkeys(LEARNING, f"model {model}, which learns nothing")
    if model not in MODELS or not MODELS[model].has_buffers:
        found["buffers"] = f"model {model}, which has no buffers"
    return found
