"""Stochastic gradient push: mass is preserved, and the mean is what all come to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from analysis.theory.traffic_matrix import matrix
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.messages import Setting
from cluster.spec.schedules.push_sum import distance, levels
from tests.loopback import on_workers
from tests.unit.test_strategies import values
from workloads.comm.push_sum import PushSum
from workloads.comm.round import Round
from workloads.strategies import STRATEGIES

HERE = "tests.unit.test_push_sum"
SIZES, ROUNDS = (0, 1, 501), 12
WORKERS = [1, 2, 3, 4, 5, 6]


def first_weight(rank: int) -> float:
    """Weights that are not 1, as after messages that were not answered."""
    return 0.5 + rank


def pushed(rank: int, workers: int) -> dict[int, list[tuple[Tensor, Tensor]]]:
    """z and w before the first round and after each."""
    spec, found = Experiment(strategy="sgp", workers=workers, train_size=60_000), {}
    for size in SIZES:
        flat = values(rank, size)
        exchange = PushSum(STRATEGIES["sgp"].exchange, flat)
        exchange.weight.fill_(first_weight(rank))
        found[size] = [(flat.clone(), exchange.weight.clone())]
        for index in range(ROUNDS):
            exchange(flat, Round(spec, rank, index))
            found[size].append((flat.clone(), exchange.weight.clone()))
    return found


def plainly_pushed(z: Tensor, w: Tensor, workers: int) -> list[tuple[Tensor, Tensor]]:
    """Rows are workers, in double precision, by the matrix of every round."""
    held, states = z * w, [(z, w)]
    for index in range(ROUNDS if workers > 1 else 0):
        hop = 2 ** (index % levels(workers))
        mixing = (torch.eye(workers) + torch.eye(workers).roll(hop, 0)).double() / 2
        held, w = mixing @ held, mixing @ w
        states.append((held / w, w))
    return states


@pytest.mark.parametrize("workers", WORKERS)
def test_mass_is_preserved_and_every_round_is_its_matrix(workers: int, tmp_path: Path) -> None:
    found = on_workers(f"{HERE}:pushed", workers, tmp_path)
    for size in SIZES:
        z = torch.stack([values(rank, size) for rank in range(workers)]).double()
        w = torch.tensor([[first_weight(rank)] for rank in range(workers)]).double()
        mass, total = (z * w).sum(0), float(w.sum())
        for index, (expected, weights) in enumerate(plainly_pushed(z, w, workers)):
            got = torch.stack([each[size][index][0] for each in found]).double()
            of = torch.stack([each[size][index][1] for each in found]).double()
            assert torch.allclose(got, expected, rtol=0, atol=1e-5), (size, index)
            assert torch.allclose(of, weights, rtol=1e-5)
            assert torch.allclose((got * of).sum(0), mass, rtol=0, atol=1e-4)
            assert float(of.sum()) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_a_power_of_two_comes_to_the_mean_in_as_many_rounds_as_levels(workers: int) -> None:
    w = torch.ones(workers, 1).double()
    z = torch.stack([values(rank, 9) for rank in range(workers)]).double()
    after, _ = plainly_pushed(z, w, workers)[levels(workers)]
    assert torch.allclose(after, z.mean(0).expand_as(z))


@pytest.mark.parametrize("workers", WORKERS[1:])
def test_each_sends_to_one_and_is_sent_to_by_one(workers: int) -> None:
    for index in range(levels(workers)):
        setting = Setting(workers=workers, model_bytes=840, first_round=index)
        found = matrix("sgp", setting, 1)
        hop = distance(index, workers)
        for rank, row in enumerate(found):
            expected = [0.0] * workers
            expected[(rank + hop) % workers] = 844.0
            assert row == expected
