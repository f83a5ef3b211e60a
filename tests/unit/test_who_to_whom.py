"""The matrix of a strategy adds up to what theory says each node sends and receives."""

from __future__ import annotations

import pytest

from analysis.theory import STRATEGIES, Setting
from analysis.who_to_whom import EDGES, matrix

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


def test_a_ring_sends_to_the_next_and_a_star_to_its_centre() -> None:
    ring = matrix("allreduce", Setting(workers=4, model_bytes=SIZE))
    assert [[bool(cell) for cell in row].index(True) for row in ring] == [1, 2, 3, 0]
    star = matrix("gather-scatter", Setting(workers=4, model_bytes=SIZE))
    assert star[0] == [0, SIZE, SIZE, SIZE]
    assert [row[0] for row in star] == [0, SIZE, SIZE, SIZE]
    assert star[1][2:] == [0, 0]
