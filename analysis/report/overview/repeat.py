"""The command that repeats each run: the options that differ from the defaults of ./measure.sh."""

import dataclasses
import shlex

import pandas as pd

from analysis.report.context import Report
from analysis.report.page import Column, Row, Section, Table
from cluster.spec import own_code
from cluster.spec.documents.codec import Json
from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import own_defaults
from cluster.spec.experiment import Experiment
from cluster.spec.options import OFF

TOLD = (
    *("strategy", "workers", "passes", "schedule", "model", "train_size", "batch_size"),
    *("link", "bottleneck", "launcher"),
)
"""Options that other options' defaults depend on."""
ALWAYS = ("strategy", "workers", "engine", "passes", "schedule")
COLUMNS = [Column("run", "label", style="left"), Column("command", "command", style="code")]
NOTE = (
    "The same spec and seed give the same accuracy. With Docker, a run's folder also holds its"
    " compose.yml."
)


def section(report: Report) -> Section | None:
    rows: list[Row] = []
    for number, run in report.runs.table.iterrows():
        spec = report.runs.specs.get(int(str(number)))
        if spec is not None:
            rows.append(
                {
                    **{name: run[name] for name in ("session", "run", "strategy")},
                    "label": report.run_names[int(str(number))],
                    "command": command(spec),
                }
            )
    if not rows:
        return None
    body = [Table(rows, COLUMNS, name="commands")]
    tables = {"commands": pd.DataFrame(rows).drop(columns="strategy")}
    return Section("repeat", "Commands to repeat each run", body, NOTE, tables)


def command(spec: Json) -> str:
    """`spec` as in spec.json; options that no longer exist are left out."""
    spec = own_code.as_typed(OFF | spec)  # as it was before there were learning-rate rules
    defaults = _defaults(spec)
    words = ["./measure.sh"]
    if spec.get("continues"):
        more = ["--continue", _text(spec["continues"]), "--epochs", _text(spec["epochs"])]
        return shlex.join([*words, *more])
    for field in dataclasses.fields(Experiment):
        name, value = field.name, spec.get(field.name)
        if not field.metadata.get("group") or value is None or name not in spec:
            continue
        if name in ALWAYS or value != defaults.get(name, field.default):
            words += ["--" + name.replace("_", "-"), _text(value)]
    return shlex.join(words)


def _defaults(spec: Json) -> Json:
    """The options of an experiment that is given only the same strategy and model."""
    told = {name: spec[name] for name in TOLD if name in spec}
    own = own_defaults(str(spec["strategy"]))
    try:
        filled = Experiment(**told).to_json()
        rule = Experiment(**told, reduce=spec.get("reduce", "mean")).lr_rule
        warmup = Experiment(**told, lr_rule=spec["lr_rule"]).warmup_epochs
    except (SpecError, TypeError):
        return own | dict.fromkeys(OFF)
    usual = {name: value for name, value in filled.items() if name not in told}
    return usual | {"local_steps": own["local_steps"], "lr_rule": rule, "warmup_epochs": warmup}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value) if isinstance(value, float) else str(value)
