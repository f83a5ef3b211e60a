"""Updates of flat tensors equal torch.optim's; learning rates follow their rules."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.learning_rate import full_rate, learning_rate
from workloads.comm.flat import FlatModel
from workloads.models.networks import make_model
from workloads.optimizers import TRUST, Lars, make_optimizer

STEPS = 12


def gradients(model: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.copy_(torch.randn(parameter.shape, generator=generator) / (1 + step))


@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "in pieces"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_updates_are_those_of_torch(name: str, weight_decay: float, in_pieces: bool) -> None:
    """In pieces is how a parameter server updates. The rate changes from step to step."""
    spec = Experiment(
        optimizer=name,
        weight_decay=weight_decay,
        lr=0.02,
        momentum=0.9 if name == "sgd" else None,
        warmup_epochs=0.25,
    )
    model = make_model("mnist-bn", 1)
    other = copy.deepcopy(model)
    flat = FlatModel(model)
    ours = make_optimizer(spec, flat)
    theirs: torch.optim.Optimizer
    if name == "sgd":
        theirs = torch.optim.SGD(other.parameters(), momentum=0.9, weight_decay=weight_decay)
    else:
        theirs = torch.optim.AdamW(other.parameters(), weight_decay=weight_decay)
    for step in range(STEPS):
        ours.lr = theirs.param_groups[0]["lr"] = learning_rate(spec, step)
        theirs.zero_grad(set_to_none=False)
        for parameter in other.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients(model, step)
        gradients(other, step)
        theirs.step()
        if in_pieces:
            ours.begin()
            for begin in range(0, flat.parameter_count, 5_000):
                place = slice(begin, begin + 5_000)
                ours.update(0, place, flat.parts[0].gradients[place])
        else:
            ours.step()
            assert not flat.parts[0].gradients.any()
    for mine, other_one in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.allclose(mine, other_one, rtol=1e-5, atol=1e-6)


def test_lars_updates_each_layer_in_proportion_to_its_weights() -> None:
    model = make_model("mnist-cnn", 1)
    flat = FlatModel(model)
    before = [p.detach().clone() for p in model.parameters()]
    gradients(model, 0)
    raw = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    Lars(flat, lr=2.0, momentum=0.9).step()
    for old, new, gradient in zip(before, model.parameters(), raw, strict=True):
        share = float((new.detach() - old).norm() / old.norm())
        if old.dim() > 1:
            assert share == pytest.approx(2.0 * TRUST, rel=1e-3)
        else:
            assert torch.allclose(new, old - 2.0 * gradient, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "factor"),
    [
        ({}, 2),
        ({"workers": 1}, 1),
        ({"lr_rule": "none"}, 1),
        ({"lr_rule": "linear"}, 4),
        ({"lr_rule": "sqrt"}, 2),
        ({"lr_rule": "auto"}, 2),
        ({"local_steps": 4}, 2),
        ({"lr_rule": "auto", "reduce": "sum"}, 1),
        ({"lr_rule": "linear", "local_steps": 2}, 8),
        ({"lr_rule": "auto", "strategy": "local-sgd", "local_steps": 8}, 2),
        ({"lr_rule": "auto", "strategy": "pairwise", "passes": 1, "schedule": "ring"}, 2),
        ({"lr_rule": "auto", "strategy": "single", "workers": 1}, 1),
    ],
)
def test_the_rate_is_scaled_by_the_batches_of_an_update(
    options: dict[str, Any], factor: float
) -> None:
    assert full_rate(Experiment(**{"workers": 4, "lr": 0.05, **options})) == pytest.approx(
        0.05 * factor
    )


@pytest.mark.parametrize(("workers", "epochs", "rise"), [(4, 3, 1.0), (4, 1, 0.0), (1, 3, 0.0)])
def test_only_a_scaled_rate_of_several_epochs_is_warmed_up(
    workers: int, epochs: int, rise: float
) -> None:
    spec = Experiment(workers=workers, epochs=epochs, train_size=6000)
    assert spec.warmup_epochs == rise
    assert learning_rate(spec, epochs * spec.steps_per_epoch - 1) == full_rate(spec)


def test_warm_up_raises_the_rate_in_every_step_up_to_the_full_rate() -> None:
    spec = Experiment(workers=4, lr=0.1, lr_rule="linear", warmup_epochs=0.5)
    assert spec.steps_per_epoch == 23
    rates = [learning_rate(spec, step) for step in range(30)]
    assert rates[:12] == pytest.approx([0.4 * (step + 1) / 12 for step in range(12)])
    assert set(rates[12:]) == {0.4}


def test_a_server_that_updates_in_pieces_refuses_lars() -> None:
    with pytest.raises(SpecError, match="norm of whole layers"):
        Experiment(strategy="parameter-server", optimizer="lars")
