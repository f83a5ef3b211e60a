"""Options without effect: which, and why.

An option that is given and has no effect is refused with the reason. In a sweep it goes to the runs
in which it has one, as passes go to the strategies that have them, and is refused where there is no
such run.
"""

from cluster.spec import synthetic
from cluster.spec.catalogue import MODELS
from cluster.spec.options import WITHOUT_MOMENTUM

LEARNING = (
    *("lr", "momentum", "weight_decay", "lr_rule", "warmup_epochs"),
    *("shuffle", "partition", "augment", "test_size"),
)
"""Options that change only what is learned."""


def ineffective_options(model: str, optimizer: str) -> dict[str, str]:
    """Option -> which model or optimizer makes it ineffective, and why."""
    found = {}
    if optimizer in WITHOUT_MOMENTUM:
        found["momentum"] = f"optimizer {optimizer}, {WITHOUT_MOMENTUM[optimizer]}"
    if model.startswith(synthetic.PREFIX):
        found |= dict.fromkeys(LEARNING, f"model {model}, which learns nothing")
    if model not in MODELS or not MODELS[model].has_buffers:
        found["buffers"] = f"model {model}, which has no buffers"
    return found
