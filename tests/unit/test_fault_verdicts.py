"""What the report says of goodput: an order only where times allow one."""

from __future__ import annotations

from analysis.report.faults.costs import _verdicts
from analysis.report.page import Row


def row(name: str, goodput: float | None, change: float = 0.0, *, contended: bool = False) -> Row:
    return {
        "configuration": name,
        "goodput": goodput,
        "accuracy_change": change,
        "contended": contended,
    }


def test_the_best_and_the_worst_are_named() -> None:
    order, accuracy = _verdicts([row("ring", 0.7), row("pairwise", 0.95, -0.02)])
    assert order == (
        "pairwise keeps 95.0 % of its steps without faults, most of all; ring keeps 70.0 %."
    )
    assert "pairwise: -2.00 %" in accuracy


def test_one_configuration_is_not_compared() -> None:
    order, accuracy = _verdicts([row("ring", 0.7)])
    assert order == "ring keeps 70.0 % of its steps without faults."
    assert accuracy == "No configuration has lost accuracy."


def test_contended_times_have_no_order() -> None:
    order, _ = _verdicts([row("ring", 0.7), row("pairwise", 0.95, contended=True)])
    assert "no order" in order


def test_without_a_run_to_compare_with_it_says_how_to_get_one() -> None:
    (text,) = _verdicts([row("ring", None)])
    assert "--storm none" in text
