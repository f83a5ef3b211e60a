"""What is said of pairs of nodes, from numbers made by hand."""

from __future__ import annotations

import dataclasses

from analysis.report.traffic.pair_words import Beside, words

RING = Beside(
    label="ring",
    measured=[[0, 1010, 4], [0, 0, 1000], [1030, 0, 0]],
    predicted=[[0, 1000, 0], [0, 0, 1000], [1000, 0, 0]],
    counted=3044,
    differ=12,
    payload=3050,
    headers=61,
)
STAR = Beside(
    label="star",
    measured=[[0, 2000], [1920, 0]],
    predicted=[[0, 2000], [2000, 0]],
    counted=3920,
    differ=3,
    payload=3920,
    headers=78,
)


def test_the_furthest_pair_is_named_with_its_ratio() -> None:
    said = " ".join(words([RING]))
    assert "to within 3.0%: furthest off is node2 to node0 of ring, 1.030 times theory" in said
    assert "at most 0.39% of what the busiest pair" in said  # 4 of 1030
    assert "Most went from node2 to node0, with ring: 1.03 kB, 34% of all" in said
    assert "99.80% of the payload" in said  # 3044 of 3050
    assert "headers are 2.0% more" in said
    assert "the same to 12 B a pair" in said
    assert "missing" not in said


def test_less_is_as_far_from_theory_as_more() -> None:
    assert "node1 to node0 of star, 0.960 times theory" in words([RING, STAR])[0]


def test_what_theory_does_not_explain_is_not_called_agreement() -> None:
    (first, *_) = words([Beside("odd", [[0, 3], [2, 0]], [[0, 2], [2, 0]], 5, 0, 5, 0)])
    assert first.startswith(
        "Not all pairs of nodes carried what theory says: node0 to node1 of odd"
    )
    assert "1.500 times" in first


def test_counts_that_were_read_amid_talk_are_told_apart() -> None:
    talking = dataclasses.replace(STAR, differ=999, talked=True)
    said = " ".join(words([RING, talking]))
    assert "Both ends of a connection counted the same to 12 B a pair." in said
    assert "With Horovod the two counts of a pair differ by up to 999 B" in said
    assert "Both ends" not in " ".join(words([talking]))


def test_closed_connections_are_said_to_be_missing() -> None:
    lost = Beside("cut", [[0, 2], [2, 0]], [[0, 2], [2, 0]], 4, 0, 9, 1, closed=3)
    assert "missing: 3 of cut" in words([RING, lost])[-1]
