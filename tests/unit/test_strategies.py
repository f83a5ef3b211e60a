"""Laws of the exchange, on real processes over loopback, compared with the plain mean."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from cluster.spec.experiment import Experiment
from cluster.spec.schedules.consensus import plan
from cluster.spec.schedules.pairwise import groups
from tests.loopback import on_workers
from workloads.comm.flat import FlatModel
from workloads.comm.half import compressed, wire_bytes
from workloads.comm.round import Round
from workloads.models.networks import make_model
from workloads.strategies import STRATEGIES

SIZES = (1, 7, 21_840)
ROUNDS = 4
MANY_CHUNKS = 200_001
AVERAGE_ALL = (
    *("allreduce", "ring", "halving-doubling", "allgather", "gather-scatter", "reduce-broadcast"),
    "local-sgd",
)
HERE = "tests.unit.test_strategies"


def values(rank: int, size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(1000 * rank + size))


@functools.cache
def mean_of(workers: int, size: int) -> Tensor:
    return torch.stack([values(rank, size) for rank in range(workers)]).double().mean(0)


def _experiment(
    strategy: str, workers: int, passes: int | None, schedule: str | None
) -> Experiment:
    return Experiment(
        strategy=strategy, workers=workers, passes=passes, schedule=schedule, train_size=60_000
    )


def averaged(rank: int, workers: int) -> dict[tuple[str, int], Tensor]:
    """By every strategy that averages over all, twice, since buffers are kept."""
    results = {}
    for strategy in AVERAGE_ALL:
        experiment = _experiment(strategy, workers, None, None)
        for size in (*SIZES, MANY_CHUNKS):
            for index in range(2):
                results[strategy, size] = values(rank, size)
                STRATEGIES[strategy].exchange(
                    results[strategy, size], Round(experiment, rank, index)
                )
    return results


def pairwise_averaged(rank: int, workers: int) -> dict[tuple[int, str, int], list[Tensor]]:
    """After every round, for all passes, schedules and sizes."""
    results = {}
    for passes in sorted({1, 2, 3, max(1, workers - 1), workers}):
        for schedule in ("ring", "random", "grid") + (("exponential",) if passes == 1 else ()):
            experiment = _experiment("pairwise", workers, passes, schedule)
            for size in SIZES:
                flat = values(rank, size)
                history = []
                for index in range(ROUNDS):
                    STRATEGIES["pairwise"].exchange(flat, Round(experiment, rank, index))
                    history.append(flat.clone())
                results[passes, schedule, size] = history
    return results


def rounded(rank: int, workers: int) -> dict[tuple[str, str], Tensor]:
    results = {}
    for how in ("fp16", "bf16"):
        for strategy in AVERAGE_ALL:
            experiment = _experiment(strategy, workers, None, None)
            results[how, strategy] = values(rank, 1000)
            exchange = compressed(STRATEGIES[strategy].exchange, how)
            exchange(results[how, strategy], Round(experiment, rank, 0))
    return results


def averaged_and_reduced(rank: int, workers: int) -> tuple[Tensor, Tensor]:
    averaged = values(rank, 21_840)
    experiment = _experiment("pairwise", workers, workers - 1, "ring")
    STRATEGIES["pairwise"].exchange(averaged, Round(experiment, rank, 3))
    reduced = values(rank, 21_840)
    dist.all_reduce(reduced)
    return averaged, reduced / workers


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 6, 8])
def test_every_worker_gets_the_mean_in_the_same_bits(workers: int, tmp_path: Path) -> None:
    results = on_workers(f"{HERE}:averaged", workers, tmp_path)
    for strategy, size in results[0]:
        mean = mean_of(workers, size)
        for result in results:
            got = result[strategy, size]
            assert torch.equal(got, results[0][strategy, size]), (strategy, size)
            assert torch.allclose(got.double(), mean, rtol=1e-6, atol=1e-6), (strategy, size)


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 6, 8])
def test_pairs_average_conserve_the_mean_and_follow_the_schedule(
    workers: int, tmp_path: Path
) -> None:
    results = on_workers(f"{HERE}:pairwise_averaged", workers, tmp_path)
    for (passes, schedule, size), _ in results[0].items():
        residuals = plan(workers, passes, schedule, Experiment.seed).residuals
        start = distance([values(rank, size) for rank in range(workers)])
        expected = torch.stack([values(rank, size) for rank in range(workers)]).double()
        mean = expected.mean(0)
        for index in range(ROUNDS):
            for members in groups(index, workers, passes, schedule, Experiment.seed):
                expected[list(members)] = expected[list(members)].mean(0)
                held = [results[rank][passes, schedule, size][index] for rank in members]
                # Members of a group hold the same bits.
                assert all(torch.equal(tensor, held[0]) for tensor in held)
            held = [results[rank][passes, schedule, size][index] for rank in range(workers)]
            got = torch.stack(held).double()
            assert torch.allclose(got, expected, rtol=0, atol=1e-5), (passes, schedule, size, index)
            assert torch.allclose(got.mean(0), mean, rtol=0, atol=1e-5)
            if size == max(SIZES) and workers > 1:
                # 21,840 random numbers come within a percent or so of what is expected of them.
                left = distance(held) / start
                assert left == pytest.approx(residuals[index], rel=0.02, abs=1e-6)


def distance(models: list[Tensor]) -> float:
    stacked = torch.stack(models).double()
    return float((stacked - stacked.mean(0)).square().sum().sqrt())


def test_a_compressed_exchange_leaves_the_mean_to_half_precision(tmp_path: Path) -> None:
    workers = 3
    results = on_workers(f"{HERE}:rounded", workers, tmp_path)
    mean = torch.stack([values(rank, 1000) for rank in range(workers)]).mean(0)
    for how, strategy in results[0]:
        for result in results:
            got = result[how, strategy]
            assert torch.equal(got, results[0][how, strategy]), (how, strategy)
            assert torch.allclose(got, mean, rtol=0, atol=0.005 if how == "fp16" else 0.04)
            assert not torch.allclose(got, mean, rtol=0, atol=1e-6)  # it was made smaller


def test_a_worker_that_sends_nothing_keeps_its_bits() -> None:
    alone = [
        _experiment("allreduce", 1, None, None),
        _experiment("pairwise", 3, 1, "ring"),  # in round 0, 0 meets 1
    ]
    for experiment in alone:
        kept = values(2, 100)
        exchange = compressed(STRATEGIES[experiment.strategy].exchange, "bf16")
        exchange(kept, Round(experiment, experiment.workers - 1, 0))
        assert torch.equal(kept, values(2, 100))


@pytest.mark.parametrize("workers", [2, 5, 6])
def test_passes_that_reach_all_equal_an_all_reduce_exactly(workers: int, tmp_path: Path) -> None:
    for averaged, reduced in on_workers(f"{HERE}:averaged_and_reduced", workers, tmp_path):
        assert torch.equal(averaged, reduced)


def test_half_precision_halves_the_bytes_on_the_wire() -> None:
    flat = FlatModel(make_model("mnist-cnn", 1))
    assert wire_bytes(flat, "none") == 87_360
    assert wire_bytes(flat, "fp16") == wire_bytes(flat, "bf16") == 43_680
