"""What the report says of goodput: an order only where times allow one."""

from __future__ import annotations

import pytest

from analysis.report.faults.costs import _verdicts
from analysis.report.page import Row
from cluster.observe.result_row import headings
from cluster.observe.result_row import row as row_of
from cluster.spec.documents.faults import Faults
from cluster.spec.documents.summary import Fidelity, Summary
from cluster.spec.experiment import Experiment


def row(name: str, goodput: float | None, change: float = 0.0, *, contended: bool = False) -> Row:
    return {
        "configuration": name,
        "goodput": None if contended else goodput,
        "is_compared": goodput is not None,
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


@pytest.mark.parametrize(
    ("verdict", "shown"), [("held", "94.00 %"), ("contended", "-"), ("coarse", "-")]
)
def test_the_table_has_goodput_only_of_times_that_hold(verdict: str, shown: str) -> None:
    spec = Experiment(workers=3, fault="2:kill@step4").to_json()
    faults, judged = Faults(goodput=0.94), Fidelity(verdict=verdict)
    summary = Summary(
        session="s", run="r", status="completed", spec=spec, faults=faults, fidelity=judged
    )
    names = headings((), ["goodput"])
    assert row_of(summary, (), ["goodput"])[names.index("goodput")] == shown
