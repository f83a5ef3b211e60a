"""Empty tables of a lab sheet are filled from the right runs; numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis.report.references.conclusions import conclusions
from analysis.report.references.derived import with_buffers, with_epochs, with_speed_up
from analysis.report.references.lab_forms import OUT_OF_MEMORY, Filled, filled_sheets
from analysis.report.references.papers import Preset

USUAL = {
    "session": "s",
    "dataset": "cifar10",
    "model": "resnet18",
    "train_size": 1024,
    "epochs": 2,
    "gpu": 0,
    "warmup_epochs": 0.0,
    "lr_rule": "none",
    "accuracy": 0.5,
    "busbw_bytes_per_s": 0.25e9,
    "shuffle": "epoch",
    "partition": "iid",
    "buffers": "broadcast",
    "cpus": 0.5,
    "straggler": None,
    "loss": 0.1,
    "lowest_worker_accuracy": 0.5,
    "highest_worker_accuracy": 0.5,
    "sent_per_step_bytes": 1000.0,
    "predicted_per_step_bytes": 1000.0,
    "out_of_memory": False,
}
LAB = {"s": Preset("lab-batch-size")}


def table(*rows: dict[str, Any]) -> pd.DataFrame:
    """Each row with the seconds of its second epoch, of which three quarters are computing."""
    frame = pd.DataFrame([USUAL | row for row in rows], index=pd.RangeIndex(1, len(rows) + 1))
    frame[["fidelity", "largest_wait_share"]] = None
    in_step = frame["batch_size"] * frame["workers"]
    frame["steps"] = frame["epochs"] * (frame["train_size"] // in_step)
    epochs = pd.DataFrame(
        [
            {
                "number": number,
                "epoch": epoch,
                "seconds": seconds * (10 if epoch == 1 else 1),
                "compute_s": 0.75 * seconds,
                "exposed_communication_s": 0.25 * seconds,
                "train_loss": 1 / epoch,
                "train_accuracy": epoch / 10,
            }
            for number, (seconds, count) in enumerate(
                zip(frame["second_s"], frame["epochs"], strict=True), start=1
            )
            for epoch in range(1, count + 1)
        ]
    )
    frame["compute_median_s"] = 0.75 * frame["second_s"] * frame["batch_size"] / 1024
    frame["step_median_s"] = frame["compute_median_s"] / 0.75
    return with_speed_up(with_buffers(with_epochs(frame, epochs)))


def form(runs: pd.DataFrame, title: str) -> Filled:
    (sheet,) = filled_sheets(runs, LAB)
    (found,) = [form for form in sheet.tables if title in form.title]
    return found


def single(batch_size: int, second_s: float, **more: Any) -> dict[str, Any]:
    return {
        "strategy": "single",
        "workers": 1,
        "batch_size": batch_size,
        "second_s": second_s,
    } | more


def together(batch_size: int, second_s: float, workers: int = 2, **more: Any) -> dict[str, Any]:
    row = {"strategy": "allreduce", "workers": workers, "batch_size": batch_size}
    return row | {"second_s": second_s} | more


def test_speed_up_is_against_one_worker_with_the_same_batch_size() -> None:
    runs = table(single(32, 8.0), single(128, 6.0), together(32, 5.0), together(128, 4.0))
    assert list(runs["speed_up"]) == pytest.approx([1, 1, 1.6, 1.5])
    other = table(single(32, 8.0), single(32, 2.0, gpu=4), together(32, 5.0))
    assert list(other["speed_up"]) == pytest.approx([1, 1, 1.6])
    alone = table(together(32, 5.0))
    assert alone["speed_up"].isna().all()


def test_speed_up_is_by_samples_not_by_epochs() -> None:
    """Six batches of 128 are 768 of the 1,024 samples: half of the time is 1.5 times the rate."""
    runs = table(single(128, 8.0), together(128, 4.0, workers=3))
    assert list(runs["speed_up"]) == pytest.approx([1, 1.5])


def test_strong_scaling_follows_from_the_runs_of_weak_scaling() -> None:
    """4 x 32 against 1 x 128: the same global batch."""
    runs = table(single(32, 8.0), single(128, 6.0), together(32, 2.0, workers=4))
    strong = form(runs, "strong scaling")
    assert [column.heading for column in strong.columns] == [
        "global batch size 128: time (s)",
        "global batch size 128: speed-up",
    ]
    assert strong.rows == (("1 worker", (6.0, 1.0)), ("4 workers", (2.0, 3.0)))


def test_a_batch_that_does_not_fit_is_in_its_cell_and_in_words() -> None:
    runs = table(single(32, 8.0), single(128, 6.0), single(512, 1.0, out_of_memory=True))
    runs.loc[3, ["second_epoch_s", "speed_up"]] = None
    assert form(runs, "table 1").rows[0][1][-2:] == (OUT_OF_MEMORY, OUT_OF_MEMORY)
    (memory,) = [text for text in conclusions("lab-batch-size", runs) if "memory" in text]
    assert "128" in memory
    assert "512" in memory


def test_bytes_of_buffers_are_those_above_a_run_whose_buffers_stay_local() -> None:
    shared: dict[str, Any] = {"partition": "label", "epochs": 3}
    runs = table(
        together(32, 1.0, **shared, predicted_per_step_bytes=1180.0),
        together(32, 1.0, **shared, buffers="local"),
    )
    buffers = form(runs, "Questions 6 and 7")
    assert [values[2] for _, values in buffers.rows] == [180, 0]
    assert any("180 B" in text for text in conclusions("lab-batch-size", runs))


def test_bandwidth_is_in_a_unit_that_fits() -> None:
    runs = table(together(32, 8.0, busbw_bytes_per_s=8.13e6), together(128, 8.0))
    bandwidth = form(runs, "table 3")
    ((_, values),) = bandwidth.rows
    texts = [column.text(value) for column, value in zip(bandwidth.columns, values, strict=True)]
    assert texts == ["8.13 MB/s", "250 MB/s"]


def test_nothing_is_concluded_from_times_where_equal_nodes_computed_unequally_long() -> None:
    """The same batch on half a core each: 8 s in 32 steps, then 8 s in 16."""
    equal = table(single(32, 8.0), single(128, 6.0), together(32, 8.0, workers=4))
    assert any("Speed-up on 4: 1.00" in text for text in conclusions("lab-batch-size", equal))
    busy = equal.assign(compute_median_s=equal["compute_median_s"] * [1, 1, 2])
    (text,) = conclusions("lab-batch-size", busy)
    assert "no order" in text


def test_times_are_of_the_second_epoch_and_seeds_are_averaged() -> None:
    runs = table(single(32, 8.0), single(32, 12.0), single(128, 6.0), together(32, 5.0))
    (sheet,) = filled_sheets(runs, LAB)
    times = sheet.tables[0]
    heads = [column.heading for column in times.columns]
    assert heads[:2] == ["batch size 32: time (s)", "batch size 32: speed-up"]
    assert [label for label, _ in times.rows] == ["1 worker", "2 workers"]
    assert times.rows[0][1] == pytest.approx((10, 0.5 * (10 / 8 + 10 / 12), 6, 1))
    assert times.rows[1][1] == (5.0, 2.0, None, None)


def test_computing_and_communication_are_those_of_several_workers() -> None:
    (sheet,) = filled_sheets(table(single(32, 8.0), single(128, 6.0), together(32, 4.0)), LAB)
    (split,) = [form for form in sheet.tables if "table 2" in form.title]
    assert split.rows == (("2 workers", (3.0, 1.0)),)
    shown = [form.title for form in sheet.tables]
    assert not [title for title in shown if "DistributedDataParallel" in title]  # none ran


def test_large_batches_stand_below_each_other_with_their_remedies() -> None:
    large = {"workers": 4, "epochs": 5}
    runs = table(
        single(128, 6.0, epochs=5, accuracy=0.75),
        together(512, 6.0, **large, accuracy=0.25),
        together(512, 6.0, **large, lr_rule="linear", warmup_epochs=1.0, accuracy=0.7),
    )
    (sheet,) = filled_sheets(runs, LAB)
    (remedies,) = [form for form in sheet.tables if "Question 4" in form.title]
    assert [(label, values[2]) for label, values in remedies.rows] == [
        ("one worker, batches of 128", 75),
        ("4 x 512, no remedy", 25),
        ("4 x 512, both", 70),
    ]
    assert remedies.rows[0][1][:2] == pytest.approx((0.2, 50))  # the fifth epoch's


def test_a_sheet_takes_its_own_preset_or_its_own_workload_and_nothing_else() -> None:
    rows = (single(32, 8.0, model="mnist-bn"), single(128, 6.0, model="mnist-bn"))
    assert filled_sheets(table(*rows), {}) == []
    (sheet,) = filled_sheets(table(*rows), {"s": Preset("lab-batch-size", is_quick=True)})
    assert sheet.is_quick
    (own,) = filled_sheets(table(single(32, 8.0), single(128, 6.0)), {})
    assert not own.is_quick
    assert filled_sheets(table(single(32, 8.0)), {}) == []  # one run is no study of it


def test_the_newest_session_counts() -> None:
    rows = [
        row | {"session": session}
        for session, seconds in (("a", 8.0), ("b", 4.0))
        for row in (single(32, seconds), single(128, seconds))
    ]
    (sheet,) = filled_sheets(table(*rows), {})
    assert sheet.session == "b"
