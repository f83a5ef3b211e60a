"""Accuracy against emulated time: what is simulated, and for which reports."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from analysis.predict import fitted
from analysis.predict.forecast import Cluster
from analysis.predict.need import Need
from analysis.report.accuracy.curves import Point
from analysis.report.accuracy.emulated_time import RATES_MBIT, _row, _Timed
from analysis.tables.configurations import Configuration

STEPS, EPOCHS = 15, 4


def timed(strategy: str, compress: str = "none", local_steps: int = 1) -> _Timed:
    row = {
        "strategy": strategy,
        "workers": 6,
        "steps": STEPS * EPOCHS,
        "epochs": EPOCHS,
        "outer": "none",
        "model": "mnist-cnn",
        "dataset": "mnist",
        "loss_function": "cross-entropy",
    }
    asked = Cluster(
        strategy=strategy,
        workers=6,
        model_bytes=4_000_000,
        compute_s=0.05,
        compress=compress,
        local_steps=local_steps,
    )
    points = [Point(epoch, 1e6 * epoch, 0.5, 0.5, 0.5) for epoch in range(1, EPOCHS + 1)]
    configuration = Configuration(strategy, pd.DataFrame([row], index=[1]))
    return _Timed(configuration, Need(asked, fitted.load().costs), points)


def test_fewer_bytes_pay_on_slow_links_and_encoding_costs_on_fast_ones() -> None:
    plain, coded = timed("allreduce"), timed("allreduce", "2bit")
    rows = _row(plain, plain), _row(coded, plain)
    assert rows[0]["pays"] is None
    assert rows[1]["coding_s"] > 0
    assert rows[0]["at_10_s"] > 5 * rows[1]["at_10_s"]
    dense = _row(timed("allreduce", "topk:0.9"), plain)
    assert "bit/s" in dense["pays"] or dense["pays"] == "no rate"
    assert rows[1]["pays"] != "no rate"


def test_local_steps_without_a_codec_pay_at_any_rate_that_shows() -> None:
    plain, local = timed("allreduce"), timed("local-sgd", local_steps=8)
    row = _row(local, plain)
    assert row["coding_s"] is None
    computing = 0.05 * STEPS * EPOCHS
    for rate in RATES_MBIT:
        exchanged = plain.train_s(rate, EPOCHS) - computing
        assert row[f"at_{rate}_s"] - computing == pytest.approx(exchanged / 8, rel=0.05)
    uneven = replace(local, need=replace(local.need, steps_per_round=STEPS / 2))
    assert uneven.train_s(100, 1) > local.train_s(100, 1)
