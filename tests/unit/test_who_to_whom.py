"""The matrix of a strategy adds up to what theory says each node sends and receives."""

from __future__ import annotations

import dataclasses

import pytest

from analysis.theory.predicted_bytes import STRATEGIES, Setting, predict
from analysis.theory.traffic_matrix import EDGES, matrix

SIZE = 1200


def test_every_strategy_has_one() -> None:
    assert set(EDGES) == set(STRATEGIES)


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 6, 8, 13])
@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "single"])
def test_rows_are_what_is_sent_and_columns_what_is_received(strategy: str, workers: int) -> None:
    passes = 2 if strategy == "pairwise" else None
    setting = Setting(
        workers=workers,
        model_bytes=SIZE,
        passes=passes,
        schedule="ring" if passes else None,
        rounds=60,
    )
    predicted = STRATEGIES[strategy](setting)
    found = matrix(strategy, setting)
    assert [sum(row) for row in found] == pytest.approx(predicted.sent_by_rank)
    columns = [sum(row[j] for row in found) for j in range(len(found))]
    assert columns == pytest.approx(predicted.received_by_rank)
    assert all(found[k][k] == 0 for k in range(len(found)))


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
    order = [2, 0, 3, 1]
    assert receivers(matrix("allreduce", setting, order=order)) == [2, 3, 1, 0]
    assert receivers(matrix("allgather", setting, order=order)) == [3, 2, 0, 1]
    assert matrix("gather-scatter", setting, order=order) == matrix("gather-scatter", setting)
    six = Setting(workers=6, model_bytes=SIZE, passes=2, schedule="ring")
    groups = matrix("pairwise", six, order=[1, 0, 2, 3, 4, 5])
    assert receivers(groups) == [1, 2, 0, 5, 3, 4]


@pytest.mark.parametrize("buffers", ["broadcast", "average", "local"])
@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "single"])
def test_buffers_are_in_it_as_in_theory(strategy: str, buffers: str) -> None:
    more = {"passes": 1, "schedule": "ring"} if strategy == "pairwise" else {}
    setting = Setting(workers=6, model_bytes=SIZE, rounds=6, **more)  # type: ignore[arg-type]
    predicted = predict(
        strategy,
        **dataclasses.asdict(setting),
        buffers=buffers,
        buffer_bytes=70,
    )
    for order in (None, [4, 0, 3, 5, 1, 2]):
        if order and strategy not in ("allreduce", "allgather", "gather-scatter", "pairwise"):
            continue
        found = matrix(strategy, setting, buffers=buffers, buffer_bytes=70, order=order)
        columns = [sum(row[j] for row in found) for j in range(len(found))]
        assert columns == pytest.approx(predicted.received_by_rank)
        assert sum(columns) == pytest.approx(sum(predicted.sent_by_rank))
