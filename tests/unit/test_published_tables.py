"""Published numbers are the papers', our runs are found by their options, verdicts follow."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis.report.references.papers import PaperColumn, PaperTable, Preset, papers
from analysis.report.references.published_tables import Compared, agrees, compare_tables, verdict

COLUMNS = ("step_median_s", "train_s", "accuracy", "loss", "network_activity_sum")


def runs(*rows: dict[str, Any]) -> pd.DataFrame:
    usual: dict[str, Any] = {
        "session": "s",
        "dataset": "mnist",
        "model": "m",
        "passes": None,
        "epochs": 3,
        "reduce": "mean",
        "average": "gradients",
        **dict.fromkeys(("link", "bottleneck", "straggler")),
    }
    usual |= dict.fromkeys(COLUMNS, 1.0) | {"lr_rule": "none"}
    table = pd.DataFrame([usual | row for row in rows])
    for epoch in (1, 2, 3):
        table[f"epoch_{epoch}_accuracy"] = 0.6
    for step in (1, 2, 3, 4, 5):
        table[f"loss_of_step_{step}"] = 0.7
    table.index = pd.RangeIndex(1, len(rows) + 1)
    return table


def two_nodes(**values: Any) -> list[dict[str, Any]]:
    return [
        {"strategy": strategy, "workers": 2, **values} for strategy in ("allreduce", "allgather")
    ]


def published(preset: str, place: int = 0) -> PaperTable:
    (paper,) = [paper for paper in papers() if paper.preset == preset]
    return paper.tables[place]


def test_the_numbers_are_the_published_ones() -> None:
    assert [row.values for row in published("vgg-parts").rows] == [
        [1.881, 100.0, 2.1, 19],
        [1.328, 70.6, 2.2488, 14],
        [1.051, 55.9, 2.2861, 12],
        [0.821, 43.6, 2.0, 23],
    ]
    for place in (0, 1):
        for row in published("vgg-parts", place).rows:
            assert sum(row.runs) / 3 == pytest.approx(row.values[0], abs=6e-4)
    assert [row.values for row in published("vgg-parts", 1).rows] == [
        [1.902, 100.0],
        [1.060, 55.7],
        [0.932, 49.0],
        [0.821, 43.2],
    ]
    assert [row.values for row in published("collectives").rows] == [
        [44.21, 98.29],
        [75.12, 98.05],
    ]
    assert [row.values for row in published("language-model").rows] == [
        [3.730],
        [0.836],
        [0.438],
    ]
    rows = published("pairwise-averaging").rows
    assert len(rows) == 20
    assert sum(row.values[0] for row in rows) == pytest.approx(2064.977, abs=1e-3)
    assert sum(row.values[1] for row in rows) == pytest.approx(1775.784, abs=1e-3)
    assert rows[-1].match == {"strategy": "pairwise", "workers": 6, "passes": 1, "epochs": 27}


def test_every_paper_names_who_wrote_it_and_why_ours_may_differ() -> None:
    for paper in papers():
        assert paper.title
        assert paper.authors
        assert all(table.why for table in paper.tables if not table.is_form)


def test_runs_are_found_by_their_options_and_seeds_are_averaged() -> None:
    rows = [*two_nodes(train_s=10.0), *two_nodes(train_s=20.0)]
    (found,) = compare_tables(runs(*rows), {})
    assert found.paper.preset == "collectives"
    assert found.columns[0].ours == (15.0, 15.0)
    assert found.numbers == ((1, 3), (2, 4))
    assert found.columns[1].ours == (100.0, 100.0)  # in percent, as published


def test_other_runs_are_no_match_and_one_row_is_no_table() -> None:
    assert compare_tables(runs(*two_nodes(epochs=4)), {}) == []
    assert compare_tables(runs(*two_nodes(dataset="cifar10")), {}) == []
    assert compare_tables(runs(two_nodes()[0]), {}) == []


def test_a_quick_variant_of_the_preset_matches_with_fewer_epochs() -> None:
    (found,) = compare_tables(
        runs(*two_nodes(epochs=1)), {"s": Preset("collectives", is_quick=True)}
    )
    assert found.session == "s"
    assert found.is_quick
    assert not compare_tables(runs(*two_nodes()), {})[0].is_quick


def test_a_share_of_the_first_row_is_ours_own() -> None:
    """Two halves: one node takes 4 s, four take 1 s."""
    kinds = (("single", 1, 4.0), ("ddp", 4, 1.0))
    rows = [
        {"strategy": s, "workers": n, "step_median_s": t, "dataset": "cifar10", "model": "vgg11"}
        for s, n, t in kinds
    ]
    found = compare_tables(runs(*rows), {})[0]
    assert found.paper.preset == "vgg-parts"
    assert [each.column.of_first for each in found.columns] == [False, True, False, False]
    assert found.columns[1].ours == (100.0, None, None, 25.0)


def test_a_preset_with_more_runs_than_its_table_matches_rows_by_their_epochs() -> None:
    """One pass of 5 workers has 12, 18 and 24 epochs: each is a row of its own."""
    five: list[dict[str, Any]] = [
        {"strategy": "pairwise", "workers": 5, "passes": 1, "epochs": epochs, "accuracy": score}
        for epochs, score in ((12, 0.3), (18, 0.8), (24, 0.9))
    ]
    five.append({"strategy": "allreduce", "workers": 5, "epochs": 12, "accuracy": 0.9})
    found = compare_tables(runs(*five), {"s": Preset("pairwise-averaging", is_quick=True)})
    (table,) = [each for each in found if each.table.activity]
    (figure,) = [each for each in found if each.table.bars]
    assert [numbers for numbers in table.numbers if numbers] == [(4,), (3,)]
    assert figure.columns[0].ours == pytest.approx((90, 30, 80))
    assert figure.columns[0].published == (91, 31, 89)


def test_an_option_that_must_be_absent_matches_none() -> None:
    slow = runs(*two_nodes(), *two_nodes(bottleneck="1:5mbit"))
    (found,) = compare_tables(slow, {})
    assert found.numbers == ((1,), (2,))


def test_every_row_has_a_cell_for_every_head() -> None:
    for paper in papers():
        for table in paper.tables:
            for row in table.rows if not table.is_form else []:
                assert len(row.cells or [row.label]) == len(table.heads)
                assert len(row.values) == len(table.columns)


def test_the_session_with_most_rows_is_taken() -> None:
    nodes = [
        {"strategy": "pairwise", "workers": 6, "passes": p, "epochs": 30 - 3 * p} for p in (1, 2, 3)
    ]
    rows = [run | {"session": "all"} for run in nodes] + [
        run | {"session": "late"} for run in nodes[:2]
    ]
    (found,) = [found for found in compare_tables(runs(*rows), {}) if found.table.activity]
    assert found.session == "all"


def compared(published: list[float], ours: list[float | None]) -> Compared:
    labels = tuple("abcd"[: len(published)])
    column = PaperColumn(heading="time", ours="time", unit="s", digits=3)
    return Compared(column, labels, tuple(published), tuple(ours))


def test_equal_order_and_ratios_agree() -> None:
    found = compared([4, 2, 1], [8, 4.2, 2.1])
    assert agrees(found)
    assert verdict(found).startswith("time: the order is the same. Ratios agree")


def test_values_that_are_all_alike_have_no_order() -> None:
    text = verdict(compared([1.0, 1.01, 1.02], [3, 1, 2]))
    assert "no order to compare" in text
    some = verdict(compared([1.0, 1.01, 2.0], [1, 1, 2]))
    assert "the order is the same in the 2 of 3 pairs" in some


def test_a_reversed_pair_is_named_and_a_tie_is_not_reversed() -> None:
    found = compared([4, 2, 1], [4, 1, 2])
    assert not agrees(found)
    assert "1 of 3 pairs are reversed (b and c)" in verdict(found)
    assert agrees(compared([1.0, 1.01], [1.01, 1.0]))


def test_a_ratio_that_disagrees_is_given_with_both_numbers() -> None:
    text = verdict(compared([4, 2], [4, 1]))
    assert "do not agree" in text
    assert "b over a is 0.50 published and 0.25 here" in text


def test_one_row_cannot_be_compared() -> None:
    assert "only one row has both values" in verdict(compared([4, 2], [4, None]))
    assert "no row has both values" in verdict(compared([4, 2], [None, None]))
