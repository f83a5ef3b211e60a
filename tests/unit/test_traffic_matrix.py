"""The traffic matrix of a strategy: its sums, its neighbours, and how Horovod changes it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.theory.predicted_bytes import predict
from analysis.theory.traffic_matrix import matrix
from cluster.spec.exchange.strategies import BUFFERS, STRATEGIES
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.schedules.messages import Setting

SIZE = 1200
EXCHANGING = [name for name, facts in STRATEGIES.items() if facts.exchanges]


@st.composite
def settings(draw: st.DrawFn) -> tuple[str, Setting, int]:
    strategy = draw(st.sampled_from(EXCHANGING))
    workers = draw(st.integers(1, 13))
    more: dict[str, Any] = {}
    if STRATEGIES[strategy].has_passes:
        more = {"passes": draw(st.integers(1, workers)), "seed": draw(st.integers(0, 9))}
        more["schedule"] = draw(st.sampled_from(["ring", "random", "grid", "auto"]))
    if strategy in LAUNCHERS["horovod"].strategies and draw(st.booleans()):
        more["order"] = tuple(draw(st.permutations(range(workers))))
    buffers = draw(st.sampled_from(sorted(BUFFERS)))
    common: dict[str, Any] = {
        "workers": workers,
        "model_bytes": SIZE,
        "buffers": buffers,
        "buffer_bytes": 70,
    }
    return strategy, Setting(**common, **more), draw(st.integers(1, 40))


@given(settings())
def test_rows_are_what_is_sent_and_columns_what_is_received(
    drawn: tuple[str, Setting, int],
) -> None:
    strategy, setting, rounds = drawn
    predicted = predict(strategy, setting, rounds)
    found = matrix(strategy, setting, rounds)
    columns = [sum(row[j] for row in found) for j in range(len(found))]
    assert [sum(row) for row in found] == pytest.approx(predicted.sent_by_rank)
    assert columns == pytest.approx(predicted.received_by_rank)
    assert all(found[rank][rank] == 0 for rank in range(len(found)))


def receivers(found: list[list[float]]) -> list[int]:
    """Of a matrix in which everyone sends to one other."""
    assert [sum(map(bool, row)) for row in found] == [1] * len(found)
    return [[bool(cell) for cell in row].index(True) for row in found]


def test_a_ring_sends_to_a_neighbour_and_a_star_to_its_centre() -> None:
    setting = Setting(workers=4, model_bytes=SIZE)
    assert receivers(matrix("ring", setting)) == [1, 2, 3, 0]
    assert receivers(matrix("allreduce", setting)) == [3, 0, 1, 2]  # Gloo goes the other way round
    star = matrix("gather-scatter", setting)
    assert star[0] == [0, SIZE, SIZE, SIZE]
    assert [row[0] for row in star] == [0, SIZE, SIZE, SIZE]
    assert star[1][2:] == [0, 0]


def test_a_group_is_a_ring_of_its_own_and_everybody_an_all_reduce() -> None:
    three = Setting(workers=6, model_bytes=SIZE, passes=2, schedule="ring")
    assert receivers(matrix("pairwise", three)) == [1, 2, 0, 4, 5, 3]
    everybody = Setting(workers=4, model_bytes=SIZE, passes=3, schedule="ring")
    assert matrix("pairwise", everybody) == matrix("allreduce", everybody)


def test_with_horovod_rings_follow_its_ranks_and_stars_ours() -> None:
    setting = Setting(workers=4, model_bytes=SIZE)
    horovod = dataclasses.replace(setting, order=(2, 0, 3, 1))
    assert receivers(matrix("allreduce", horovod)) == [2, 3, 1, 0]
    assert receivers(matrix("allgather", horovod)) == [3, 2, 0, 1]
    assert matrix("gather-scatter", horovod) == matrix("gather-scatter", setting)
    six = Setting(workers=6, model_bytes=SIZE, passes=2, schedule="ring", order=(1, 0, 2, 3, 4, 5))
    assert receivers(matrix("pairwise", six)) == [1, 2, 0, 5, 3, 4]
