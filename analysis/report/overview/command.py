"""An experiment -> the exact command that repeats it. Pure.

All options that differ from what ./measure.sh would fill in; a test types it in again and gets the same experiment.
"""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.options import OFF
from cluster.spec.strategies import own_defaults

TOLD = ("strategy", "workers", "passes", "schedule", "model", "train_size", "batch_size")
"""What other options' defaults may depend on."""


def command(spec: dict[str, Any]) -> str:
    """`spec` as in summary.json; options that are not known any more are left out."""
    spec = OFF | spec  # as it was before there were rules
    usual = _filled_in(spec)
    words = ["./measure.sh"]
    for field in dataclasses.fields(Experiment):
        name, value = field.name, spec.get(field.name)
        if not field.metadata or value is None or name not in spec:
            continue
        always = name in ("strategy", "workers", "engine", "passes", "schedule")
        if always or value != usual.get(name, field.default):
            words += ["--" + name.replace("_", "-"), _text(value)]
    return shlex.join(words)


def _filled_in(spec: dict[str, Any]) -> dict[str, Any]:
    """What an experiment with the same strategy and model has unless it is told otherwise."""
    told = {name: spec[name] for name in TOLD if name in spec}
    own = own_defaults(str(spec["strategy"]))
    try:
        filled = Experiment(**told).to_json()
        rule = Experiment(**told, reduce=spec.get("reduce", "mean")).lr_rule
        rise = Experiment(**told, lr_rule=spec["lr_rule"]).warmup_epochs
    except (SpecError, TypeError):
        return own | dict.fromkeys(OFF)
    usual = {name: value for name, value in filled.items() if name not in told}
    return usual | {"local_steps": own["local_steps"], "lr_rule": rule, "warmup_epochs": rise}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if isinstance(value, float) else str(value)
