"""States that outlive the training process: written by a fork, killed at any moment, read again."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from cluster.spec.documents.membership import Place
from workloads.elastic.committed import Committed
from workloads.state import StateError

LENGTH = 300_000


def state(value: float, pieces: int = 4) -> dict[str, Tensor]:
    return {
        "parameters.0": torch.full((LENGTH,), value),
        "counters.0": torch.tensor(int(value)),
        "exchange.0.residual_of_mean": torch.full((pieces,), value),
    }


def commit_for_ever(committed: Committed) -> None:
    """As a training process does: a round every other step."""
    place, own = Place(), state(0.0)
    committed.begin(own, place)
    while True:
        step = place.step + 1
        place = replace(place, done=step, step=step, round=step // 2, pending=step % 2)
        for tensor in own.values():
            tensor.fill_(step)
        committed.commit(own, place)


@pytest.mark.parametrize("wait_s", [0.01, 0.02, 0.03, 0.05, 0.08])
def test_whenever_the_writer_is_killed_two_whole_states_are_there(wait_s: float) -> None:
    committed = Committed()
    child = os.fork()
    if child == 0:
        commit_for_ever(committed)
    while committed.before is None:
        time.sleep(0.001)
    time.sleep(wait_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    latest, before = committed.latest, committed.before
    assert latest is not None
    assert before is not None
    assert before.round == latest.round - 1
    assert before.step == 2 * latest.round - 1  # the last one before that round
    for place in (latest, before):
        found = state(-1.0)
        committed.restore(found, place)
        for tensor in found.values():
            assert tensor.unique().tolist() == [place.step]


def test_another_number_of_workers_forgets_only_what_was_lost_of_the_mean() -> None:
    committed = Committed()
    committed.begin(state(5.0, pieces=4), Place(step=5))
    found = state(-1.0, pieces=6)
    committed.restore(found, Place(step=5))
    assert found["parameters.0"].unique().tolist() == [5.0]
    assert found["exchange.0.residual_of_mean"].unique().tolist() == [0.0]


def test_a_state_that_is_not_there_or_of_another_model_is_refused() -> None:
    committed = Committed()
    committed.begin(state(5.0), Place(step=5))
    with pytest.raises(StateError, match="step 6"):
        committed.restore(state(0.0), Place(step=6))
    with pytest.raises(StateError, match=r"parameters\.0"):
        committed.restore({"parameters.0": torch.zeros(3)}, Place(step=5))
    committed.clear()
    assert committed.latest is None
