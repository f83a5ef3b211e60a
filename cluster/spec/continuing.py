"""Runs that go on where an earlier one ended (--continue), and which can be gone on with.

Every worker keeps its state at the end (--save-state): parameters, optimizer, codec's residuals,
outer optimiser. A run that begins with it is, bit for bit, the rest of a longer one: the data
order, the learning rate and the groups of its epoch k are those of epoch `epochs_before` + k.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.spec.errors import SpecError
from cluster.spec.own_code import is_own

if TYPE_CHECKING:
    from cluster.spec.experiment import Experiment

STATE_FOLDER = "model"
"""Of the run folder, with a file for each node."""


def check_state(experiment: Experiment) -> None:
    """SpecError where the workers' states do not say all that the next step depends on."""
    if not experiment.save_state:
        return
    strategy = experiment.strategy
    reasons = {
        f"launcher {experiment.launcher}: use torch": experiment.launcher != "torch",
        "gpu: NCCL does not add up in a fixed order": experiment.gpu > 0,
        "strategy ddp: torch sorts its buckets anew after the first step, so that a continued run"
        " would add up in another order; use allreduce": strategy == "ddp",
        f"strategy {strategy}, your own, whose memory is not known": is_own(strategy),
        f"strategy {strategy}: what its workers do next depends on timing": experiment.is_unpaced,
        "on_failure continue: the samples of a worker follow from who was there": (
            experiment.on_failure == "continue"
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            raise SpecError(f"save_state does not go with {reason}")
