"""The command that the report prints for a run makes the same experiment."""

from __future__ import annotations

import shlex

import pytest

from analysis.report.overview.repeat import command
from cluster.flags import make_parser
from cluster.plan import make_experiments, settle
from cluster.spec.experiment import Experiment

EXPERIMENTS = [
    Experiment(),
    Experiment(strategy="single", workers=1, seed=7),
    Experiment(
        strategy="pairwise", workers=6, passes=2, schedule="grid", local_steps=4, lr=0.0123456789
    ),
    Experiment(overlap=True, bucket_mb=0.5, compress="fp16", link="100mbit", dilation=1.0),
    Experiment(
        strategy="local-sgd",
        local_steps=16,
        bottleneck="1:20mbit,2:5mbit",
        straggler="0:0.5",
        dilation=2.3,
    ),
    Experiment(
        strategy="ddp", model="synthetic:4M:8:10ms", batch_size=1, train_size=40, epochs=1, cpus=0.5
    ),
    Experiment(
        strategy="gather-scatter",
        average="parameters",
        buffers="local",
        model="mnist-bn",
        engine="docker",
    ),
    Experiment(lr_rule="linear", warmup_epochs=0.0),
    Experiment(lr_rule="none", warmup_epochs=1.0),
    Experiment(train_size=4 * 64),
    Experiment(lr_rule="none"),
    Experiment(lr_rule="sqrt", reduce="sum"),
    Experiment(reduce="sum", momentum=0.9),
    Experiment(optimizer="adamw", lr=0.001, lr_rule="none"),
    Experiment(optimizer="adamw", lr=0.001),
    Experiment(strategy="local-sgd", lr_rule="sqrt"),
    Experiment(strategy="ddp", workers=2, gpu=1, engine="docker"),
    Experiment(strategy="single", workers=1, gpu=4, engine="docker"),
]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.label)
def test_the_printed_command_makes_the_same_experiment(experiment: Experiment) -> None:
    words = shlex.split(command(experiment.to_json()))
    assert words[0] == "./measure.sh"
    args = make_parser().parse_args(words[1:])
    assert settle(make_experiments(args), args.engine, print) == [experiment]


def test_defaults_are_left_out() -> None:
    text = command(Experiment().to_json())
    assert text == "./measure.sh --strategy allreduce --workers 4 --engine netns"
