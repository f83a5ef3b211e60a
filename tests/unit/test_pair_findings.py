"""Findings about pairs of nodes, from numbers made by hand."""

from __future__ import annotations

import dataclasses

import numpy as np

from analysis.report.traffic.matrix import RunMatrices, findings

RING = RunMatrices(
    label="ring",
    measured=np.array([[0, 1010, 4], [0, 0, 1000], [1030, 0, 0]], float),
    predicted=np.array([[0, 1000, 0], [0, 0, 1000], [1000, 0, 0]], float),
    counted=3044,
    differ=12,
    payload=3050,
    headers=61,
)
STAR = RunMatrices(
    label="star",
    measured=np.array([[0, 2000], [1920, 0]], float),
    predicted=np.array([[0, 2000], [2000, 0]], float),
    counted=3920,
    differ=3,
    payload=3920,
    headers=78,
)


def test_the_furthest_pair_is_named_with_its_ratio() -> None:
    agreement, unpredicted, busiest, whole, ends = findings([RING])
    for text in ("within 3.0 %", "node2 to node0 of ring", "1.030 times theory"):
        assert text in agreement
    assert "0.39 %" in unpredicted  # 4 of 1030
    assert "node2 to node0 of ring, 1.03 kB, 34 %" in busiest
    assert "99.80 %" in whole  # 3044 of 3050
    assert "headers add 2.0 %" in whole
    assert "12 B" in ends


def test_less_is_as_far_from_theory_as_more() -> None:
    assert "node1 to node0 of star, 0.960 times theory" in findings([RING, STAR])[0]


def test_a_large_difference_is_not_called_agreement() -> None:
    measured, predicted = np.array([[0.0, 3.0], [2.0, 0.0]]), np.array([[0.0, 2.0], [2.0, 0.0]])
    first, *_ = findings([RunMatrices("odd", measured, predicted, 5, 0, 5, 0)])
    assert first.startswith("Not all pairs agree")
    assert "node0 to node1 of odd, 1.500 times" in first


def test_counts_read_during_control_traffic_are_reported_apart() -> None:
    controlled = dataclasses.replace(STAR, differ=999, has_control_traffic=True)
    *_, quiet, horovod = findings([RING, controlled])
    assert "12 B" in quiet
    assert "Horovod" in horovod
    assert "999 B" in horovod
    assert not [text for text in findings([controlled]) if "Both ends" in text]


def test_closed_connections_are_reported_as_missing() -> None:
    both_ways = np.array([[0.0, 2.0], [2.0, 0.0]])
    lost = RunMatrices("cut", both_ways, both_ways, 4, 0, 9, 1, closed=3)
    assert "missing: 3 of cut" in findings([RING, lost])[-1]
    assert not [text for text in findings([RING]) if "missing" in text]
