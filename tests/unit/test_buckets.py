"""Buckets: every number of a model is in one, last layers first."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as some

from analysis.predict.fitted import load
from analysis.predict.forecast import Cluster, forecast
from cluster.spec.links import Link
from cluster.spec.synthetic import BACKWARD_SHARE
from workloads.comm.buckets import Bucket, bucket_count, split_into_buckets

PARTS = [[0, 10, 30, 30, 60], [0, 5]]


def test_without_a_size_each_type_is_one_bucket_and_the_last_comes_first() -> None:
    assert split_into_buckets(PARTS, [4, 8], None) == [
        Bucket(1, 0, 5, range(1)),
        Bucket(0, 0, 60, range(4)),
    ]


def test_size_0_is_one_bucket_per_tensor_from_the_last_without_empty_ones() -> None:
    found = [(b.part, b.start, b.end) for b in split_into_buckets(PARTS, [4, 8], 0)]
    assert found == [(1, 0, 5), (0, 30, 60), (0, 10, 30), (0, 0, 10)]


def test_a_bucket_ends_with_the_tensor_that_fills_it() -> None:
    found = [(b.start, b.end) for b in split_into_buckets(PARTS[:1], [4], 121)]
    assert found == [(10, 60), (0, 10)]


def test_a_size_above_the_model_is_one_bucket() -> None:
    assert len(split_into_buckets(PARTS[:1], [4], 10**9)) == 1


@given(
    some.lists(some.lists(some.integers(0, 50), min_size=1, max_size=8), max_size=3),
    some.none() | some.integers(0, 300),
)
def test_every_number_is_in_exactly_one_bucket(lengths: list[list[int]], size: int | None) -> None:
    parts = [[sum(part[:k]) for k in range(len(part) + 1)] for part in lengths]
    covered = [
        (b.part, at)
        for b in split_into_buckets(parts, [4] * len(parts), size)
        for at in range(b.start, b.end)
    ]
    assert sorted(covered) == [(k, at) for k, part in enumerate(parts) for at in range(part[-1])]


def test_a_slow_link_has_more_buckets() -> None:
    counts = [bucket_count(16_000_000, 4, rate) for rate in (10, 100, 1000, None)]
    assert counts == sorted(counts, reverse=True)
    assert 50 <= counts[1] < 100
    assert bucket_count(87_360, 4, None) == 1
    assert bucket_count(16_000_000, 1, 100) == 1
    assert bucket_count(0, 4, 100) == 1


@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize("rate_mbit", [10, 100])
@pytest.mark.parametrize("size", [10**6, 16 * 10**6])
def test_the_simulator_finds_no_bucket_size_that_is_2_percent_better(
    workers: int, rate_mbit: int, size: int
) -> None:
    """Backward takes as long as the exchange: then bucket sizes matter most.

    At rates of the runs to which a message's cost was fitted: on faster links it is not known.
    """
    costs, layers = load().costs, 64
    offsets = list(accumulate([size // layers] * layers, initial=0))

    def step_s(count: int, compute_s: float) -> float:
        buckets = split_into_buckets([offsets], [1], -(-size // count))
        return forecast(
            Cluster(
                strategy="allreduce",
                workers=workers,
                model_bytes=size,
                link=Link(rate_mbit * 10**6),
                compute_s=compute_s,
                overlap=True,
                bucket_bytes=tuple(bucket.end - bucket.start for bucket in buckets),
            ),
            costs,
        ).step_s

    compute_s = step_s(1, 0.0) / BACKWARD_SHARE
    best = min(step_s(count, compute_s) for count in (1, 2, 4, 8, 16, 32, 64))
    assert step_s(bucket_count(size, workers, rate_mbit), compute_s) <= 1.02 * best
