"""25 real training steps: strategies that are equal in theory end with the same model."""

from __future__ import annotations

import pytest
import torch

from cluster.spec.documents.run_folder import RunFolder
from tests.measuring import measure

WORKERS, BATCH, STEPS = 4, 16, 25
SEED = 2
"""Sums in another order differ in the last bit, until this rounding decides a tie: then models
differ by 1e-3 and more. With this seed none does; tests/unit/test_rounding.py has several seeds."""
OVER_ALL = (
    "allreduce,ring,allgather,gather-scatter,reduce-broadcast,ddp"
    ",local-sgd,pairwise,parameter-server"
)
ALL_ALIKE = [
    # The mean of N models after a step is the model after a step by the mean gradient: local-sgd
    # and pairwise average models.
    {"strategy": OVER_ALL, "local_steps": "1", "passes": "3"},
    {"strategy": "allreduce,parameter-server", "average": "parameters"},
    {
        "strategy": "allreduce,gather-scatter,parameter-server",
        "overlap": "yes",
        "bucket_mb": "0",
    },
    {"strategy": "allreduce,ddp", "bucket_mb": "0.02"},
]
SUM = {"strategy": "allreduce", "reduce": "sum"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """Run -> all parameters of its final model."""
    output = tmp_path_factory.mktemp("models")
    size = WORKERS * BATCH * STEPS
    sizes = (
        *("--epochs", "1", "--batch-size", str(BATCH)),
        *("--train-size", str(size), "--test-size", "100"),
    )
    flags = ("--engine", "netns", "--workers", str(WORKERS), "--seed", str(SEED), *sizes)
    measured = measure(
        *flags, "--lr-rule", "none", "--output", str(output), sweeps=[*ALL_ALIKE, SUM]
    )
    assert measured.code == 0, measured.stderr
    found = {}
    for summary in measured.summaries:
        assert summary["steps"] == STEPS
        state = torch.load(RunFolder(output / summary["session"] / summary["run"]).model)
        model = torch.cat([tensor.flatten() for tensor in state.values()])
        found[f"{summary['run']} {summary['spec']['reduce']}"] = model
    return found


def test_every_strategy_that_averages_over_all_ends_with_the_model_of_ddp(
    models: dict[str, torch.Tensor],
) -> None:
    reference = next(model for run, model in models.items() if "-ddp-" in run)
    means = {run: model for run, model in models.items() if run.endswith(" mean")}
    assert len(means) == 16
    for run, model in means.items():
        assert torch.allclose(model, reference, rtol=0, atol=1e-5), run


def test_sum_and_mean_of_gradients_end_with_different_models(
    models: dict[str, torch.Tensor],
) -> None:
    mean = next(model for run, model in models.items() if run.endswith(" mean"))
    (summed,) = (model for run, model in models.items() if run.endswith(" sum"))
    assert not torch.allclose(mean, summed, rtol=0, atol=1e-3)
