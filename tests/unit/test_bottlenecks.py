"""Which runs make a comparison, their nodes' slow-downs, and the findings."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from analysis.report.time.bottleneck_cases import Case, Comparison, Node, Study, find_studies
from analysis.report.time.bottleneck_findings import case_name, describe, extremes, times
from analysis.report.time.bottlenecks import as_table
from analysis.tables.load import load_runs
from analysis.theory.critical_path import place_text
from cluster.spec.documents.run_folder import RunFolder, write_json
from cluster.spec.experiment import Experiment
from tests.slow_nodes import summary_of

ALL_REDUCE = {"strategy": "allreduce", "workers": 3}


def node(rank: int, step_s: float, usual_s: float | None = 1.0, **values: Any) -> Node:
    given: dict[str, Any] = {
        "compute_median_s": 0.1,
        "exposed_communication_median_s": step_s - 0.1,
        "waiting_median_s": 0.0,
        "waits_mostly_for": None,
        "is_slow": False,
        **values,
    }
    slow_down = usual_s and step_s / usual_s
    return Node(rank=rank, step_median_s=step_s, slow_down=slow_down, **given)


def case(*nodes: Node, bottleneck: str | None = None, straggler: str | None = None) -> Case:
    return Case("001-run", bottleneck, straggler, None, nodes)


def said(*nodes: Node, strategy: str = "allreduce", **slow: str) -> str:
    return describe(Comparison(strategy, strategy, (case(*nodes, **slow),)))


# ---------------------------------------------------------------------------------- names of cases


@pytest.mark.parametrize(
    ("bottleneck", "straggler", "name"),
    [
        (None, None, "no bottleneck"),
        ("3:20mbit", None, "node 3 at 20 Mbit/s"),
        ("3:20mbit,5:20mbit", None, "nodes 3 and 5 at 20 Mbit/s"),
        ("1:20mbit,2:5mbit,4:20mbit", None, "nodes 1 and 4 at 20 Mbit/s and node 2 at 5 Mbit/s"),
        (None, "3:0.25", "node 3 with 0.25 cores"),
        ("0:1mbit", "0:0.5,1:0.5", "node 0 at 1 Mbit/s and nodes 0 and 1 with 0.5 cores"),
    ],
)
def test_a_case_is_named_by_what_is_slow_in_it(
    bottleneck: str | None, straggler: str | None, name: str
) -> None:
    assert case_name(case(bottleneck=bottleneck, straggler=straggler)) == name


def test_the_case_without_slow_nodes_depends_on_the_others() -> None:
    assert case_name(case(), [case(), case(straggler="1:0.5")]) == "no straggler"
    assert case_name(case(), [case(), case(bottleneck="1:1mbit")]) == "no bottleneck"


@pytest.mark.parametrize(
    ("strategy", "ranks", "workers", "name"),
    [
        ("gather-scatter", (0,), 6, "the root"),
        ("gather-scatter", (4,), 6, "a leaf"),
        ("gather-scatter", (3, 5), 6, "leaves"),
        ("gather-scatter", (0, 3), 6, ""),
        ("reduce-broadcast", (3,), 6, "a leaf"),
        ("reduce-broadcast", (4,), 6, ""),  # 5 is below it
        ("reduce-broadcast", (4,), 5, "a leaf"),
        ("parameter-server", (6,), 6, "the server"),
        ("parameter-server", (0,), 6, ""),
        ("allreduce", (0,), 6, ""),
    ],
)
def test_a_slow_node_has_a_place_where_places_differ(
    strategy: str, ranks: tuple[int, ...], workers: int, name: str
) -> None:
    assert place_text(strategy, ranks, workers) == name


@pytest.mark.parametrize(("ratio", "text"), [(1.064, "1.06 x"), (4.96, "5.0 x"), (17.2, "17.2 x")])
def test_a_ratio_near_one_has_two_decimals(ratio: float, text: str) -> None:
    assert times(ratio) == text


# ---------------------------------------------------------------------------------------- findings


def test_equal_slow_downs_are_one_number() -> None:
    words = said(node(0, 4.9), node(1, 5.1), bottleneck="1:20mbit")
    assert re.search(r"^Node 1 at 20 Mbit/s .* equally, 5\.0 x\.$", words)


def test_unequal_slow_downs_are_a_range() -> None:
    words = said(node(0, 2.0), node(1, 5.0), bottleneck="0:1mbit,1:1mbit")
    assert "2.0 to 5.0 x" in words
    assert "equally" not in words


def test_nodes_that_are_slowed_down_are_named_and_the_others_are_bounded() -> None:
    words = said(node(0, 1.1), node(1, 0.9), node(2, 4.0), node(3, 5.0), bottleneck="3:1mbit")
    assert re.search(r"nodes 2 and 3, 4\.0 to 5\.0 x, .* 1\.10 x", words)


def test_where_no_node_is_slowed_down_the_largest_ratio_is_given() -> None:
    words = said(node(0, 1.06), node(1, 1.0), strategy="gather-scatter", bottleneck="1:20mbit")
    assert re.search(r"\(a leaf\) slows no node .* 1\.06 x", words)
    assert "1.00 x" in said(node(0, 0.7), bottleneck="0:20mbit")


def test_without_a_case_to_compare_with_only_times_are_given() -> None:
    words = said(node(0, 0.5, None), node(1, 2.0, None), bottleneck="0:1mbit")
    assert "500 ms to 2.00 s" in words
    assert " x" not in words


def test_a_node_waits_for_the_one_that_arrived_last() -> None:
    """The slow node's partners come first; short waiting is not mentioned."""
    words = said(
        node(0, 5, waiting_median_s=4.0, waits_mostly_for=1),
        node(1, 5, waiting_median_s=2.0, waits_mostly_for=2),
        node(2, 5, waiting_median_s=0.1, waits_mostly_for=3, is_slow=True),
        node(3, 5, waiting_median_s=2.1, waits_mostly_for=2),
        bottleneck="2:20mbit",
    )
    assert re.search(r"nodes 1 and 3 .* for node 2 and node 0 for node 1, 40 to 80 %", words)


def test_a_chain_of_waiting_begins_at_the_slow_node() -> None:
    def waiting(rank: int, whom: int) -> Node:
        return node(rank, 5, waiting_median_s=2.5, waits_mostly_for=whom)

    words = said(
        *(waiting(0, 2), waiting(1, 0), waiting(2, 3), node(3, 5, is_slow=True)),
        bottleneck="3:1mbit",
    )
    assert re.search(r"node 2 .* for node 3, node 0 for node 2 and node 1 for node 0, 50 %", words)


def test_a_stragglers_computing_time_is_given_beside_the_others() -> None:
    words = said(
        node(0, 2, compute_median_s=0.05, waiting_median_s=1.0, waits_mostly_for=1),
        node(1, 2, compute_median_s=1.5, is_slow=True),
        straggler="1:0.1",
    )
    assert re.search(r"^Node 1 with 0\.1 cores .* node 1 computes 1\.50 s .* 50\.0 ms", words)


def test_where_computing_and_waiting_are_unknown_they_are_not_mentioned() -> None:
    hidden = {
        "compute_median_s": None,
        "exposed_communication_median_s": None,
        "waiting_median_s": None,
    }
    words = said(node(0, 3, **hidden), node(1, 3, **hidden, is_slow=True), straggler="1:0.1")
    assert "3.0 x" in words
    assert ";" not in words


def test_every_case_names_the_strategies_with_the_shortest_and_the_longest_step() -> None:
    def compared(label: str, free_s: float, slow_s: float) -> Comparison:
        cases = (case(node(0, free_s)), case(node(0, slow_s), bottleneck="0:1mbit"))
        return Comparison(label, label, cases)

    study = Study("s", "", (compared("a", 1, 9), compared("b", 2, 5), compared("c", 3, 7)))
    assert re.findall(r"([\d.]+) s \((.)\)", extremes(study)) == [
        *(("5.00", "b"), ("9.00", "a")),
        *(("1.00", "a"), ("3.00", "c")),
    ]
    assert extremes(Study("s", "", study.comparisons[:1])) == ""


@pytest.mark.parametrize(
    ("computing", "step_s", "said"),
    [((1, 3), 9, "no order"), ((1, 1.1), 5.5, "not distinguishable"), ((1, 1.1), 9, "5.00 s (a)")],
)
def test_strategies_are_ordered_only_beyond_noise(
    computing: tuple[float, float], step_s: float, said: str
) -> None:
    comparisons = tuple(
        Comparison(label, label, (case(node(0, seconds, compute_median_s=compute)),))
        for label, seconds, compute in zip("ab", (5, step_s), computing, strict=True)
    )
    assert said in extremes(Study("s", "", comparisons))


def test_nothing_is_said_of_contended_cases() -> None:
    held, contended = (
        dataclasses.replace(case(node(0, 5), node(1, 9), bottleneck="1:20mbit"), **verdict)
        for verdict in ({"has_verdict": True}, {"contended": "no order: why", "has_verdict": True})
    )
    assert describe(Comparison("a", "a", (contended,))) == "No order: why."
    comparisons = (Comparison("a", "a", (held,)), Comparison("b", "b", (contended,)))
    assert "no order: why" in extremes(Study("s", "", comparisons))


# ------------------------------------------------------------------------------------- which runs


def studies(tmp_path: Path, *specs: dict[str, Any], status: str = "completed") -> list[Study]:
    """Of one session; all steps take as many seconds as the run's number."""
    folders = []
    for number, spec in enumerate(specs, start=1):
        folder = RunFolder(tmp_path / "session" / f"{number:03d}").create()
        experiment = Experiment(**spec)
        steps = [float(number)] * experiment.workers
        write_json(folder.summary, summary_of(folder, experiment, steps) | {"status": status})
        folders.append(folder)
    return find_studies(load_runs(folders))


def test_runs_that_differ_only_in_their_slow_nodes_are_compared(tmp_path: Path) -> None:
    (study,) = studies(
        tmp_path,
        {**ALL_REDUCE, "bottleneck": "1:20mbit"},
        ALL_REDUCE,
        {**ALL_REDUCE, "bottleneck": "1:20mbit,2:20mbit"},
    )
    (comparison,) = study.comparisons
    assert [each.bottleneck for each in comparison.cases] == [None, "1:20mbit", "1:20mbit,2:20mbit"]
    assert [each.slow_downs for each in comparison.cases] == [[1] * 3, [0.5] * 3, [1.5] * 3]
    slow = [[n.rank for n in each.nodes if n.is_slow] for each in comparison.cases]
    assert slow == [[], [1], [1, 2]]


@pytest.mark.parametrize("other", [{"lr": 0.25}, {"workers": 4}, {"link": "1gbit"}, {"seed": 2}])
def test_runs_that_differ_in_anything_else_too_are_not_compared(
    other: dict[str, Any], tmp_path: Path
) -> None:
    assert studies(tmp_path, ALL_REDUCE, {**ALL_REDUCE, "bottleneck": "1:20mbit", **other}) == []


def test_runs_without_slow_nodes_and_runs_that_failed_are_not_compared(tmp_path: Path) -> None:
    assert studies(tmp_path / "a", ALL_REDUCE, {"strategy": "ring", "workers": 3}) == []
    slow = {**ALL_REDUCE, "straggler": "1:0.5"}
    assert studies(tmp_path / "b", ALL_REDUCE, slow, status="failed") == []


def test_strategies_in_the_same_cases_stand_in_one_study(tmp_path: Path) -> None:
    """An option that follows from the strategy is not in its label; models are apart."""
    pairs = {"strategy": "pairwise", "passes": 1, "schedule": "ring", "workers": 3}
    other = {**ALL_REDUCE, "model": "synthetic:1M"}
    specs = [ALL_REDUCE, pairs, other]
    found = studies(tmp_path, *specs, *({**spec, "bottleneck": "1:20mbit"} for spec in specs))
    assert [study.title for study in found] == [
        "3 workers, model mnist-cnn",
        "3 workers, model synthetic:1M",
    ]
    labels = [[panel.label for panel in study.comparisons] for study in found]
    assert labels == [["allreduce", "pairwise (ring), 1 pass"], ["allreduce"]]


def test_a_server_is_no_row_but_may_be_the_slow_node(tmp_path: Path) -> None:
    served = {"strategy": "parameter-server", "workers": 2}
    (study,) = studies(tmp_path, served, {**served, "bottleneck": "2:20mbit"})
    (comparison,) = study.comparisons
    assert [len(each.nodes) for each in comparison.cases] == [2, 2]
    assert "(the server)" in describe(comparison)


def test_the_table_has_a_row_for_every_node_of_every_case(tmp_path: Path) -> None:
    table = as_table(studies(tmp_path, ALL_REDUCE, {**ALL_REDUCE, "bottleneck": "1:20mbit"}))
    assert list(table["rank"]) == [0, 1, 2] * 2
    assert list(table["slow_down"]) == [1.0] * 3 + [2.0] * 3
    assert list(table["is_slow"]) == [False] * 4 + [True, False]
    assert as_table([]).empty
