"""Grouped messages, as NCCL needs them, give the same results as single ones, on real processes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.loopback import on_workers
from tests.unit import test_exchange, test_strategies
from tests.unit.test_strategies import AVERAGE_ALL, mean_of, values
from workloads.comm.messages import LEAST_GROUPED_BYTES, group_messages, pipeline_chunks
from workloads.comm.round import Round
from workloads.strategies import STRATEGIES

HERE = "tests.unit.test_grouped_messages"
SEVERAL_GROUPS = 2_000_001


def averaged(rank: int, workers: int) -> dict[tuple[str, int], Tensor]:
    group_messages(True)
    results = test_strategies.averaged(rank, workers)
    for strategy in AVERAGE_ALL:
        experiment = test_strategies._experiment(strategy, workers, None, None)
        flat = results[strategy, SEVERAL_GROUPS] = values(rank, SEVERAL_GROUPS)
        STRATEGIES[strategy].exchange(flat, Round(experiment, rank, 0))
    return results


def in_groups_and_by_themselves(
    rank: int, workers: int
) -> list[dict[tuple[int, str, int], list[Tensor]]]:
    results = []
    for grouped in (True, False):
        group_messages(grouped)
        results.append(test_strategies.pairwise_averaged(rank, workers))
    return results


def served_both_ways(rank: int, nodes: int) -> list[dict[int, dict[str, Tensor]]]:
    results = []
    for grouped in (True, False):
        group_messages(grouped)
        results.append(test_exchange.trained_with_a_server(rank, nodes))
    return results


@pytest.fixture(autouse=True)
def _by_themselves_again() -> None:
    group_messages(False)


def test_a_large_tensor_is_several_groups_of_at_least_a_mebibyte() -> None:
    group_messages(True)
    try:
        chunks = pipeline_chunks(torch.empty(SEVERAL_GROUPS))
        assert len(chunks) > 5
        assert all(chunk.nbytes >= LEAST_GROUPED_BYTES for chunk in chunks[:-1])
    finally:
        group_messages(False)
    assert len(pipeline_chunks(torch.empty(SEVERAL_GROUPS))) > 128


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_every_worker_gets_the_mean_in_the_same_bits(workers: int, tmp_path: Path) -> None:
    results = on_workers(f"{HERE}:averaged", workers, tmp_path)
    for strategy, size in results[0]:
        mean = mean_of(workers, size)
        for result in results:
            got = result[strategy, size]
            assert torch.equal(got, results[0][strategy, size]), (strategy, size)
            assert torch.allclose(got.double(), mean, rtol=1e-6, atol=1e-6), (strategy, size)


@pytest.mark.parametrize("workers", [3, 4])
def test_pairs_and_rings_leave_the_same_bits_with_and_without_groups(
    workers: int, tmp_path: Path
) -> None:
    for grouped, plain in on_workers(f"{HERE}:in_groups_and_by_themselves", workers, tmp_path):
        for case, history in grouped.items():
            for held, expected in zip(history, plain[case], strict=True):
                assert torch.equal(held, expected), case


def test_a_server_leaves_the_same_parameters_with_and_without_groups(tmp_path: Path) -> None:
    for grouped, plain in on_workers(f"{HERE}:served_both_ways", 4, tmp_path)[:-1]:
        for kind, parameters in grouped.items():
            for name, tensor in parameters.items():
                assert torch.equal(tensor, plain[kind][name]), (kind, name)
