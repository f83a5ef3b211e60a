"""Correlation coefficients, their intervals, and the finding."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analysis.report.accuracy.correlation import FEWEST, correlate, varies

numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))
pairs = st.lists(st.tuples(numbers, numbers), min_size=FEWEST, max_size=30)


@given(pairs)
def test_pearson_is_numpys_and_lies_in_its_interval(points: list[tuple[float, float]]) -> None:
    xs, ys = zip(*points, strict=True)
    found = correlate(xs, ys)
    if found.pearson is None:
        assert not varies(xs) or len(set(ys)) == 1
        return
    assert found.pearson.value == pytest.approx(float(np.corrcoef(xs, ys)[0, 1]), abs=1e-6)
    for coefficient in (found.pearson, found.spearman):
        assert coefficient is not None
        if coefficient.interval is None:
            assert abs(coefficient.value) == 1
        else:
            low, high = coefficient.interval
            assert -1 <= low <= coefficient.value <= high <= 1


@given(st.lists(numbers, min_size=FEWEST, max_size=20, unique=True))
def test_any_rising_relation_has_a_rank_correlation_of_one(xs: list[float]) -> None:
    assume(varies(xs))
    found = correlate(xs, [math.atan(x / 1e6) ** 3 + x for x in xs])
    assert found.spearman is not None
    assert found.spearman.value == pytest.approx(1)


def test_the_interval_is_fishers() -> None:
    """r = 0.8 among 10: 0.34 to 0.95, as tables have it."""
    xs = np.arange(10.0)
    noise = np.array([1, -1, 1, -1, 1, -1, 1, -1, 1, -1.0])
    noise -= np.polyval(np.polyfit(xs, noise, 1), xs)
    ys = 0.8 * (xs - xs.mean()) / xs.std() + 0.6 * noise / noise.std()
    found = correlate(list(xs), list(ys))
    assert found.pearson is not None
    assert found.pearson.value == pytest.approx(0.8)
    assert found.pearson.interval == pytest.approx((0.343, 0.951), abs=0.001)


@pytest.mark.parametrize("ys", [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])
def test_points_in_perfect_order_have_no_interval(ys: list[float]) -> None:
    found = correlate([1, 2, 3, 4, 5], ys)
    assert found.pearson is not None
    assert found.spearman is not None
    assert found.pearson.interval is found.spearman.interval is None
    assert "no interval" in str(found.spearman)
    assert found.spearman.is_clear  # one order in 60


def test_constant_values_have_no_correlation() -> None:
    up = [1, 2, 3, 4, 5, 6]
    assert "same bytes" in correlate([1.0] * 6, up).sentence
    assert "same accuracy" in correlate(up, [1.0] * 6).sentence


def test_bytes_that_differ_in_their_headers_only_are_the_same() -> None:
    up = [1, 2, 3, 4, 5, 6]
    alike = correlate([1000 + 4 * value for value in up], up)
    assert alike.pearson is None
    assert alike.sent_alike
    assert correlate([1000 + 5 * value for value in up], up).pearson is not None


def test_the_finding_names_the_direction_or_none() -> None:
    up = list(range(1, 9))
    assert "higher accuracy" in correlate(up, up).sentence
    assert "lower accuracy" in correlate(up, up[::-1]).sentence
    assert "includes 0" in correlate(up, [1, 8, 2, 7, 3, 6, 4, 5]).sentence
