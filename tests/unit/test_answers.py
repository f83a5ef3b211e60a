"""The report's findings follow the numbers: accuracy, cost, speed, trust."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.report.accuracy import accuracy
from analysis.report.accuracy.curves import final_averaging_bytes
from analysis.report.context import Report
from analysis.report.figures import share_scale
from analysis.report.overview import overview
from analysis.report.overview.answers import answers
from analysis.report.overview.trust import AGREES, compared
from analysis.report.page import Table
from analysis.tables.configurations import is_chance_level
from analysis.tables.labels import in_common, labels, scored_on
from analysis.tables.load import Runs, load_runs
from cluster.spec.documents.run_folder import find_runs

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.fixture(scope="module")
def label_skew() -> Runs:
    """An all-reduce and pairs, one seed each."""
    return load_runs(find_runs(DATA / "label-skew"))


def seeds(runs: Runs, *accuracies: tuple[str, float]) -> Report:
    """Runs that differ in strategy and seed alone, with these accuracies."""
    rows = []
    for seed, (strategy, reached) in enumerate(accuracies, start=1):
        like = runs.table[runs.table["strategy"] == strategy].iloc[0]
        rows.append(like.to_dict() | {"accuracy": reached, "seed": seed})
    table = pd.DataFrame(rows).astype(runs.table.dtypes.to_dict())
    table.index = pd.RangeIndex(1, len(rows) + 1, name="number")
    folders = dict.fromkeys(table.index, runs.folders[1])
    return Report.of(dataclasses.replace(runs, table=table, folders=folders))


def said(report: Report, ask: str) -> str:
    (found,) = [answer for answer in answers(report) if answer.question.startswith(ask)]
    return str(found).removeprefix(f"{found.question}: ")


def test_what_all_runs_share_is_said_and_what_differs_is_not(label_skew: Runs) -> None:
    text = in_common(label_skew.table)
    assert text.startswith("mnist-cnn on mnist, 3 workers, unlimited links, 3 epochs")
    other = label_skew.table.copy()
    other.loc[1, "epochs"] = 4
    assert "epoch" not in in_common(other)
    assert in_common(label_skew.table[:0]) == ""


def test_it_is_said_how_much_of_the_test_set_was_used(label_skew: Runs) -> None:
    table = label_skew.table.assign(test_size=pd.array([None, None], dtype="Int64"))
    assert scored_on(table) == "on the whole test set"
    table.loc[1, "test_size"] = 200
    assert scored_on(table) == "on 200 test samples (--test-size), or on the whole test set"
    table["test_size"] = [200, 1000]
    assert scored_on(table) == "on 200 to 1,000 test samples (--test-size)"
    for make in (overview.results, accuracy.section):
        section = make(Report.of(dataclasses.replace(label_skew, table=table)))
        assert section is not None
        assert "on 200 to 1,000 test samples" in section.note
        assert "whole" not in section.note


def test_seeds_that_overlap_are_no_order(label_skew: Runs) -> None:
    pairs = (("allreduce", 0.90), ("allreduce", 0.94), ("pairwise", 0.91), ("pairwise", 0.91))
    text = said(seeds(label_skew, *pairs), "Most accurate")
    assert text.startswith("no clear winner: allreduce, 92.00 ± 2.83 %")
    assert "pairwise (ring), 1 pass, 91.00 ± 0.00 %" in text
    assert "ot distinguishable" in text
    assert "2 seeds" in text


def test_seeds_that_are_apart_have_a_winner_and_a_runner_up(label_skew: Runs) -> None:
    pairs = (("allreduce", 0.93), ("allreduce", 0.94), ("pairwise", 0.90), ("pairwise", 0.91))
    text = said(seeds(label_skew, *pairs), "Most accurate")
    assert text.startswith("allreduce, 93.50 ± 0.71 %")
    assert "next: pairwise (ring), 1 pass, 90.50 ± 0.71 %" in text


@pytest.mark.parametrize("other", [0.9306, 0.91])
def test_accuracies_of_one_seed_each_have_no_order(label_skew: Runs, other: float) -> None:
    text = said(seeds(label_skew, ("allreduce", 0.9304), ("pairwise", other)), "Most accurate")
    assert "ot distinguishable" in text
    assert "one seed each" in text


def test_a_language_model_is_judged_by_bits_per_byte(label_skew: Runs) -> None:
    losses = {"allreduce": (1.5, 1.51), "pairwise": (1.6, 1.62)}
    report = seeds(label_skew, *((name, 0.5) for name, two in losses.items() for _ in two))
    values = [loss for two in losses.values() for loss in two]
    table = report.runs.table.assign(dataset="sotu", loss=values, loss_function="cross-entropy")
    curves = pd.DataFrame(
        {"number": [1, 2, 3, 4], "epoch": 1, "accuracy": 0.5, "loss": values, "seconds": 1.0}
    ).assign(sent_bytes=[10**6] * 2 + [10**5] * 2, test_samples=8)
    report = Report.of(dataclasses.replace(report.runs, table=table, curves=curves))
    text = said(report, "Fewest bits per byte")
    assert text.startswith("allreduce, 2.171 ± 0.010 bit/byte; next: pairwise (ring), 1 pass, 2.3")
    assert said(report, "Bytes to 2.2 bits per byte").startswith("allreduce, 1.00 MB")
    section = overview.results(report)
    assert section is not None
    assert section.tables["results"]["bits"].round(3).tolist() == [2.171, 2.323]
    chart = accuracy.section(report)
    assert chart is not None
    assert "Bits per byte against bytes" in str(chart.body)


def test_a_text_without_a_loss_and_one_with_ones_own_loss_are_no_bits(label_skew: Runs) -> None:
    text = label_skew.table.assign(dataset="sotu", loss=math.nan, loss_function="cross-entropy")
    lost = Report.of(dataclasses.replace(label_skew, table=text))
    assert said(lost, "Bits per byte").startswith("not known")
    own = text.assign(loss=1.5, loss_function="mine.py:loss")
    report = Report.of(dataclasses.replace(label_skew, table=own))
    assert said(report, "Most accurate").startswith("no clear winner")


def test_a_label_names_what_flags_replaced_of_an_algorithm(label_skew: Runs) -> None:
    run = label_skew.table.iloc[1].copy()
    run["algorithm"], run["local_steps"], run["outer"] = "noloco", 8, "nesterov:0.7:0.3"
    run["schedule"], run["compress"], run["average"] = "random", "none", "parameters"
    assert labels([run], [], with_workers=False) == ["noloco"]
    other = run.copy()
    other["passes"], other["outer"] = 2, "sgd:1"
    found = labels([run, other], ["outer"], with_workers=False)
    assert found == ["noloco", "noloco (random), 2 passes, outer sgd:1"]


def test_parameters_that_are_averaged_in_part_need_a_final_averaging(label_skew: Runs) -> None:
    """Of the whole model, which is 1 / SHARE of what is sent."""
    table = label_skew.table.assign(compress="randk:0.01", average="parameters", model_bytes=1000)
    report = Report.of(dataclasses.replace(label_skew, table=table))
    for config in report.configurations:
        assert final_averaging_bytes(config) == pytest.approx(2 * 2 * 100_000)


def steps_on_links(runs: Runs, computing: tuple[float, float]) -> Report:
    """An all-reduce of 164 ms and pairs of 88 ms on links of 100 Mbit/s."""
    more = {"step_median_s": [0.164, 0.088], "compute_median_s": computing}
    return Report.of(dataclasses.replace(runs, table=runs.table.assign(link="100mbit", **more)))


def test_a_difference_of_computing_is_no_order_of_strategies(label_skew: Runs) -> None:
    contended = steps_on_links(label_skew, (0.1, 0.02))
    text = said(contended, "Fastest step")
    assert text.startswith("No order")
    assert "20.0 ms to 100 ms" in text
    assert [answer.question for answer in answers(contended) if answer.grey] == ["Fastest step"]
    assert set(contended.contended) == {1, 2}
    quiet = steps_on_links(label_skew, (0.02, 0.022))
    text = said(quiet, "Fastest step")
    assert text.startswith("pairwise (ring), 1 pass, 88.0 ms; next: allreduce, 164 ms (1.9×)")
    assert text.endswith("sent 2.66 MB in training, all nodes and reached 38.40 %.")
    assert not any(answer.grey for answer in answers(quiet))


def test_runs_that_learn_otherwise_are_repetitions_of_one_step(label_skew: Runs) -> None:
    """All-reduces of 3 and of 5 epochs take equal steps; pairs are another strategy."""
    report = seeds(label_skew, ("allreduce", 0.9), ("allreduce", 0.9), ("pairwise", 0.9))
    more: dict[str, Any] = {
        "step_median_s": [0.16, 0.18, 0.09],
        "compute_median_s": 0.02,
        "epochs": [3, 5, 3],
    }
    table = report.runs.table.assign(**more, seed=1)
    text = said(Report.of(dataclasses.replace(report.runs, table=table)), "Fastest step")
    assert "pairwise (ring), 1 pass, 90.0 ms; next: allreduce, 170 ± 14 ms (1.9×)" in text
    assert "1 to 2 runs" in text


def test_a_winner_of_some_is_not_called_the_winner_of_all(label_skew: Runs) -> None:
    report = seeds(label_skew, ("allreduce", 0.9), ("pairwise", 0.9), ("pairwise", 0.9))
    more: dict[str, Any] = {
        "step_median_s": [0.2, 0.1, 0.05],
        "passes": pd.array([None, 1, 2], "Int64"),
    }
    table = report.runs.table.assign(**more, seed=1, fidelity=["held", "held", "contended"])
    text = said(Report.of(dataclasses.replace(report.runs, table=table)), "Fastest step")
    assert text.startswith("of the 2 that can be compared: pairwise (ring), 1 pass, 100 ms")
    assert "contended: pairwise (ring), 2 passes" in text


def test_slow_nodes_are_told_in_words(label_skew: Runs) -> None:
    run = label_skew.table.iloc[0].copy()
    run["bottleneck"], run["straggler"] = "0:20mbit,2:20mbit", "1:0.05"
    (text,) = labels([run], ["bottleneck", "straggler"], with_workers=False)
    assert text == "allreduce, nodes 0 and 2 at 20 Mbit/s, node 1 with 0.05 cores"
    run["bottleneck"] = "x"  # of another version
    assert labels([run], ["bottleneck"], with_workers=False) == ["allreduce, x"]


def test_computing_that_is_a_small_part_of_a_step_may_differ(label_skew: Runs) -> None:
    """4 ms more of computing do not make an order of 164 ms and 88 ms."""
    report = steps_on_links(label_skew, (0.002, 0.006))
    assert report.contended == {}
    assert said(report, "Fastest step").startswith("pairwise")


def test_times_of_a_contended_host_are_grey_in_tables(label_skew: Runs) -> None:
    for computing, expected in (((0.1, 0.02), {"step_median_s", "share"}), ((0.02, 0.02), set())):
        section = overview.results(steps_on_links(label_skew, computing))
        assert section is not None
        (table,) = [block for block in section.body if isinstance(block, Table)]
        cells = [cell for row in table.rows for cell in table.cells(row)]
        grey = {cell.column.key for cell in cells if "contended" in cell.style}
        assert grey - {"train_s"} == expected


def test_nothing_on_the_first_screen_is_predicted(label_skew: Runs) -> None:
    text = " ".join(map(str, answers(steps_on_links(label_skew, (0.02, 0.02)))))
    assert "redicted" not in text.replace("measured over predicted", "")


@pytest.mark.parametrize(
    ("factor", "first"), [(1.04, "allreduce, 1.00 MB; as few: pairwise"), (1.06, "allreduce,")]
)
def test_those_that_sent_as_little_are_all_named(
    label_skew: Runs, factor: float, first: str
) -> None:
    curves = label_skew.curves.copy()
    curves["accuracy"] = 0.9
    averaging = 2 * (3 - 1) * 87_360  # pairs of three workers pay for it at the end
    sent = {1: 1_000_000, 2: round(1_000_000 * factor) - averaging}
    strategies = label_skew.table["strategy"].tolist()
    assert strategies == ["allreduce", "pairwise"]
    curves["sent_bytes"] = curves["number"].map(sent).astype("Int64")
    report = Report.of(dataclasses.replace(label_skew, curves=curves))
    assert said(report, "Fewest bytes").startswith(first)


def test_chance_level_is_not_called_accurate(label_skew: Runs) -> None:
    """500 test samples of ten classes: guessing gets 10 %, and one time in 40 more than 12.7 %."""
    report = seeds(label_skew, ("allreduce", 0.12), ("pairwise", 0.126))
    found = {answer.question: str(answer) for answer in answers(report)}
    assert found["Accuracy"].startswith("Accuracy: no better than guessing")
    assert "pairwise" in found["Accuracy"]
    assert not any("ytes to" in ask for ask in found)
    section = accuracy.section(report)
    assert section is not None
    assert section.tables["target"].empty
    better = seeds(label_skew, ("allreduce", 0.12), ("pairwise", 0.128))
    assert "pairwise (ring), 1 pass, 12.80 %" in said(better, "Most accurate")
    assert any("ytes to" in answer.question for answer in answers(better))


@pytest.mark.parametrize(
    ("dataset", "test_size", "limit"),
    [("mnist", None, 0.106), ("cifar10", 100, 0.16), ("rte", None, 0.5 + 1 / 277**0.5)],
)
def test_chance_level_is_two_standard_errors_wide(
    dataset: str, test_size: int | None, limit: float
) -> None:
    run = pd.Series({"dataset": dataset, "test_size": test_size})
    assert is_chance_level(run, limit - 1e-6)
    assert not is_chance_level(run, limit + 1e-6)
    assert not is_chance_level(pd.Series({"dataset": "none", "test_size": None}), 0.0)


def test_an_option_at_its_default_is_not_in_the_label(label_skew: Runs) -> None:
    runs = [label_skew.table.iloc[0].copy() for _ in range(3)]
    for run, rule in zip(runs, ("sqrt", "linear", "sqrt"), strict=True):
        run["lr_rule"], run["warmup_epochs"] = rule, 1.0
    runs[1]["warmup_epochs"], runs[2]["bucket_mb"] = 1.5, 0.0
    options = ["lr_rule", "warmup_epochs", "bucket_mb"]
    assert labels(runs, options, with_workers=False) == [
        "allreduce",
        "allreduce, linear lr rule, warm-up of 1.5 epochs",
        "allreduce, tensor by tensor",
    ]
    assert labels(runs[:1], ["lr"], with_workers=False) == ["allreduce, lr 0.05"]  # a quantity


def test_a_default_is_in_the_label_where_two_would_be_alike(label_skew: Runs) -> None:
    """A run from before there was a option, beside one that has it as it usually is."""
    runs = [label_skew.table.iloc[0].copy() for _ in range(2)]
    runs[0]["lr_rule"], runs[1]["lr_rule"] = None, "sqrt"
    found = labels(runs, ["lr_rule"], with_workers=False)
    assert found == ["allreduce", "allreduce, sqrt lr rule"]
    runs[0]["lr_rule"] = "sqrt"
    assert labels(runs, ["lr_rule"], with_workers=False) == ["allreduce"] * 2


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, AGREES),
        ({"sent_over_predicted": 1.05}, "sent differs from theory"),
        ({"train_received_bytes": 0}, "received differs from sent"),
        ({"train_sent_bytes": 0}, "received differs from sent"),
        ({"counter_kernel_bytes": 1}, "counters differ"),
    ],
    ids=str,
)
def test_a_verdict_names_what_differs(
    label_skew: Runs, change: dict[str, Any], verdict: str
) -> None:
    run = label_skew.table.iloc[1].copy()
    for name, value in change.items():
        run[name] = value
    assert compared(run).verdict == verdict


@pytest.mark.parametrize(
    ("values", "ends"),
    [([0.9, 0.902], [85.1, 95.1]), ([0.99], [94, 100]), ([0.0, 0.004], [0, 5.2])],
)
def test_nearly_equal_shares_look_nearly_equal(values: list[float], ends: list[float]) -> None:
    assert share_scale("a", values).axis["range"] == ends
    assert "range" not in share_scale("a", [0.9, 0.92]).axis


def with_verdicts(runs: Runs, *verdicts: str | None, computing: tuple[float, float]) -> Report:
    waits = [0.52 if verdict == "contended" else 0.01 for verdict in verdicts]
    table = steps_on_links(runs, computing).runs.table
    table = table.assign(fidelity=pd.Series(verdicts, table.index), largest_wait_share=waits)
    return Report.of(dataclasses.replace(runs, table=table))


@pytest.mark.parametrize(
    ("verdicts", "computing", "contended"),
    [
        (("held", "held"), (0.1, 0.02), set()),
        (("held", "contended"), (0.02, 0.02), {2}),
        (("contended", "contended"), (0.02, 0.02), {1, 2}),
        (("unknown", None), (0.1, 0.02), {1, 2}),
        (("unknown", None), (0.02, 0.02), set()),
        (("held", "unknown"), (0.1, 0.02), set()),
    ],
)
def test_a_recorded_verdict_replaces_the_check_of_computing(
    label_skew: Runs,
    verdicts: tuple[str | None, str | None],
    computing: tuple[float, float],
    contended: set[int],
) -> None:
    report = with_verdicts(label_skew, *verdicts, computing=computing)
    assert set(report.contended) == contended
    text = said(report, "Fastest step")
    assert text.startswith("No order") == bool(contended)
    if verdicts[1] == "contended":
        assert "52 %" in text


def test_a_contended_run_without_computing_is_no_order_either(label_skew: Runs) -> None:
    """As with ddp, whose computing hides the exchange."""
    report = with_verdicts(label_skew, "held", "contended", computing=(math.nan, math.nan))
    assert said(report, "Fastest step").startswith("No order")
