"""Which runs can be continued, and what follows from the epochs before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from analysis.report.overview.repeat import command
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.learning_rate import learning_rate


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"strategy": "ddp"}, "sorts its buckets anew after the first step"),
        ({"strategy": "async-pairwise"}, "depends on timing"),
        ({"launcher": "horovod"}, "launcher horovod: use torch"),
        ({"strategy": "star.py", "folder": "/f"}, "your own, whose memory is not known"),
        ({"on_failure": "continue"}, "on_failure continue"),
    ],
)
def test_a_run_whose_state_does_not_say_all_cannot_keep_it(
    options: dict[str, Any], reason: str
) -> None:
    Experiment(**options)
    with pytest.raises(SpecError, match=f"save_state does not go with .*{reason}"):
        Experiment(**options, save_state=True)


def test_a_continued_run_begins_after_the_steps_and_rounds_before() -> None:
    first = Experiment(strategy="pairwise", schedule="random", epochs=1, warmup_epochs=1.0)
    later = replace(first, epochs_before=1, continues="runs/a/b")
    assert (later.steps_before, later.rounds_before) == (first.steps_per_epoch, first.rounds)
    assert later.warmup_epochs == first.warmup_epochs
    assert learning_rate(later, later.steps_before) > learning_rate(first, 0)
    assert command(later.to_json()) == "./measure.sh --continue runs/a/b --epochs 1"
