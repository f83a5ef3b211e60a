"""Targets as they are typed, and scores as text."""

from __future__ import annotations

import math

import pytest

from analysis.tables.score import ACCURACY, BITS, Target, parse_target
from cluster.observe.score_text import perplexity, score_text


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("0.9", Target(ACCURACY, 0.9)),
        ("90%", Target(ACCURACY, 0.9)),
        ("3.5bits", Target(BITS, 3.5)),
        ("8bits", Target(BITS, 8.0)),
    ],
)
def test_a_target_is_an_accuracy_or_bits_per_byte(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["0", "1.1", "bits", "9bits", "nan", "nanbits", "inf%"])
def test_anything_else_is_no_target(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_target(text)


def test_a_text_has_loss_bits_and_perplexity_instead_of_accuracy() -> None:
    loss = 3.5 * math.log(2)
    told = score_text("sotu", "cross-entropy", 0.3, loss)
    assert "3.500 bit/byte" in told
    assert "perplexity 11.31" in told
    assert "%" not in told
    assert perplexity(loss) == pytest.approx(2**3.5)
    assert score_text("mnist", "cross-entropy", 0.5, 1.0) == "accuracy 50.00 %"
    assert score_text("none", "cross-entropy", None, None) == ""
