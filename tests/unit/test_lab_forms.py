"""Empty tables of a lab sheet are filled from the right runs; numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis.report.references.lab_forms import filled_sheets, with_epochs, with_speed_up
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
    "busbw_gb_per_s": 0.25,
}
LAB = {"s": Preset("lab-batch-size")}


def table(*rows: dict[str, Any]) -> pd.DataFrame:
    """Each row with the seconds of its second epoch, of which three quarters are computing."""
    frame = pd.DataFrame([USUAL | row for row in rows], index=pd.RangeIndex(1, len(rows) + 1))
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
    return with_epochs(frame, epochs)


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
    runs = with_speed_up(
        table(single(32, 8.0), single(128, 6.0), together(32, 5.0), together(128, 4.0))
    )
    assert list(runs["speed_up"]) == pytest.approx([1, 1, 1.6, 1.5])
    other = with_speed_up(table(single(32, 8.0), single(32, 2.0, gpu=4), together(32, 5.0)))
    assert list(other["speed_up"]) == pytest.approx([1, 1, 1.6])
    alone = with_speed_up(table(together(32, 5.0)))
    assert alone["speed_up"].isna().all()


def test_speed_up_is_by_samples_not_by_epochs() -> None:
    """Six batches of 128 are 768 of the 1,024 samples: half of the time is 1.5 times the rate."""
    runs = with_speed_up(table(single(128, 8.0), together(128, 4.0, workers=3)))
    assert list(runs["speed_up"]) == pytest.approx([1, 1.5])


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
    assert filled_sheets(table(single(32, 8.0)), {}) == []  # one batch size is no study of it


def test_the_newest_session_counts() -> None:
    rows = [
        row | {"session": session}
        for session, seconds in (("a", 8.0), ("b", 4.0))
        for row in (single(32, seconds), single(128, seconds))
    ]
    (sheet,) = filled_sheets(table(*rows), {})
    assert sheet.session == "b"
