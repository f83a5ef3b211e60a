"""What a lab concludes in words follows from its runs; numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from analysis.report.references.conclusions import CONCLUSIONS, conclusions
from analysis.report.references.papers import papers

USUAL: dict[str, Any] = {
    "model": "m",
    "dataset": "cifar10",
    "batch_size": 64,
    "cpus": 0.5,
    "test_size": 500,
    "reduce": "mean",
    "average": "gradients",
    "compute_median_s": 0.1,
    "step_median_s": 1.0,
    "exposed_communication_median_s": 0.5,
    "last_train_loss": 0.5,
    "train_payload_bytes": 1e6,
    "accuracy": 0.2,
    "epochs": 12,
    **{f"loss_of_step_{step}": 0.7 for step in range(1, 6)},
    **{f"epoch_{epoch}_accuracy": 0.6 for epoch in (1, 2, 3)},
    **dict.fromkeys(("bottleneck", "straggler", "passes", "fidelity", "largest_wait_share")),
}


def table(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([USUAL | row for row in rows])


def seeds(strategy: str, workers: int, steps: list[float], **more: Any) -> list[dict[str, Any]]:
    row = {"strategy": strategy, "workers": workers, **more}
    return [row | {"step_median_s": step} for step in steps]


def vgg(ring: list[float]) -> pd.DataFrame:
    return table(
        *seeds("single", 1, [2.0, 2.1, 1.9]),
        *seeds("gather-scatter", 4, [1.3, 1.4, 1.2]),
        *seeds("allreduce", 4, ring),
        *seeds("ddp", 1, [2.0, 2.1, 1.9]),
        *seeds("ddp", 2, [1.2, 1.3, 1.25]),
        *seeds("ddp", 4, [0.8, 0.81, 0.79]),
    )


def test_every_preset_of_a_paper_has_a_conclusion() -> None:
    assert {paper.preset for paper in papers()} == set(CONCLUSIONS)


def test_a_faster_method_is_named_where_seeds_tell_it_from_chance() -> None:
    texts = conclusions("vgg-parts", vgg([1.0, 1.05, 0.95]))
    assert any("all-reduce takes 23 % less than gather and scatter" in text for text in texts)
    near = conclusions("vgg-parts", vgg([1.25, 1.3, 1.35]))
    assert not any("all-reduce takes" in text and "than gather" in text for text in near)
    assert any("not distinguishable" in text for text in near)


def test_scalability_is_speed_up_over_one_node_and_its_share_of_perfect() -> None:
    (text,) = [t for t in conclusions("vgg-parts", vgg([1.0])) if "Scalability" in t]
    assert "1.60 times on 2 nodes (80 %" in text
    assert "2.50 times on 4 nodes (62 %" in text
    assert "each node more gains less" in text


def test_unequal_computing_of_equal_nodes_leaves_accuracy_alone() -> None:
    busy = vgg([1.0, 1.05, 0.95])
    busy.loc[busy["strategy"] == "allreduce", "compute_median_s"] = 0.4
    times, learned = conclusions("vgg-parts", busy)
    assert "no order" in times
    assert "20.00 %" in learned
    assert "above the chance level of 10 %" in learned


def test_an_accuracy_that_guessing_reaches_is_not_above_chance() -> None:
    (text,) = [
        text
        for text in conclusions("vgg-parts", vgg([1.0]).assign(accuracy=0.11))
        if "chance" in text
    ]
    assert "not all above" in text


def test_a_slow_node_is_told_by_how_many_times_as_long_a_step_takes() -> None:
    runs = table(
        *seeds("allreduce", 4, [0.1]),
        *seeds("allreduce", 4, [0.6], bottleneck="1:5mbit"),
        *seeds("allgather", 4, [0.1]),
        *seeds("allgather", 4, [1.2], bottleneck="1:5mbit"),
    )
    (text,) = [t for t in conclusions("collectives", runs) if "slow link" in t]
    assert "6.0 times" in text
    assert "12.0 times" in text


@pytest.mark.parametrize(("scores", "differs"), [((0.5, 0.52), True), ((0.5, 0.91), False)])
def test_fewer_passes_cost_accuracy_only_where_seeds_do_not_overlap(
    scores: tuple[float, float], differs: bool
) -> None:
    def five(strategy: str, accuracy: float, **more: Any) -> dict[str, Any]:
        return {"strategy": strategy, "workers": 5, "accuracy": accuracy, **more}

    pairs = {"passes": 1, "train_payload_bytes": 0.5e6}
    runs = table(
        *(five("allreduce", score) for score in (0.9, 0.92)),
        *(five("pairwise", score, **pairs) for score in scores),
    )
    (text,) = conclusions("pairwise-averaging", runs)
    assert "1 pass (50 % of its bytes)" in text
    assert ("Not distinguishable" in text) is not differs


def test_equal_losses_of_two_tasks_are_told_and_others_by_how_much() -> None:
    runs = table(*seeds("gather-scatter", 4, [1.0]), *seeds("allreduce", 4, [1.0]))
    assert any("less than 0.0001" in text for text in conclusions("language-model", runs))
    runs.loc[1, "loss_of_step_3"] = 0.71
    assert any("up to 0.0100" in text for text in conclusions("language-model", runs))
