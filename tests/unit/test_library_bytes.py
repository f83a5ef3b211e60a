"""Bytes that the library really sends for an exchange, by its sockets: as predicted to the byte.

And how often lossy codecs are really called.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from analysis.predict.coding import calls_of
from analysis.theory.predicted_bytes import predict, predict_framing
from cluster.spec.exchange.codecs import parse_codec
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.messages import Setting, all_reduce_segments, boundary_bytes
from tests.loopback import on_workers
from workloads import strategies
from workloads.comm import encoded_exchange
from workloads.comm.encoded_exchange import Feedback
from workloads.comm.half import compressed
from workloads.comm.outer import stateful_exchange
from workloads.comm.round import Round
from workloads.counters.connections import read_connections

HERE = "tests.unit.test_library_bytes"
CASES = [
    *(("allreduce", "none", elements) for elements in (1, 5, 109, 1000, 21_760, 600_001)),
    *(("allreduce", "fp16", elements) for elements in (109, 1001, 21_760)),
    *(("allreduce", "randk:0.01", elements) for elements in (1000, 10_900)),
    *(("allreduce", codec, 12_000) for codec in ("int8", "int4", "2bit", "sign", "topk:0.05")),
    ("allreduce", "topk:0.01", 1003),
    ("local-sgd", "topk:0.05", 300_000),
    *((name, "none", 1000) for name in ("ring", "allgather", "halving-doubling")),
    *((name, "none", 21_760) for name in ("gather-scatter", "reduce-broadcast", "pairwise")),
    ("gather-scatter", "int4", 21_760),
]
"""Strategy, codec, numbers. Some are fewer than a ring has pieces, or than fill their segments."""


def sent_by_case(rank: int, workers: int) -> list[int]:
    return [_sent(rank, workers, *case) for case in CASES]


def _sent(rank: int, workers: int, strategy: str, codec: str, elements: int) -> int:
    passes = 1 if strategy == "pairwise" else None
    experiment = Experiment(strategy=strategy, workers=workers, compress=codec, passes=passes)
    numbers = torch.full((elements,), rank + 1.0)
    exchange = compressed(strategies.STRATEGIES[strategy].exchange, codec)
    if parse_codec(codec).lossy:
        exchange = stateful_exchange(exchange, experiment, numbers, [numbers.shape])
    dist.barrier()
    before = _sent_so_far()
    dist.barrier()
    exchange(numbers, Round(experiment, rank, 0))
    dist.barrier()
    return _sent_so_far() - before


def _sent_so_far() -> int:
    found = read_connections()
    assert found is not None
    return sum(connection.counted.sent_bytes for connection in found)


@pytest.mark.parametrize("workers", [2, 3, 5, 6])
def test_sockets_carry_the_predicted_bytes_to_the_byte(workers: int, tmp_path: Path) -> None:
    by_rank = on_workers(f"{HERE}:sent_by_case", workers, tmp_path)
    for (strategy, codec, elements), *sent in zip(CASES, *by_rank, strict=True):
        setting = Setting(
            workers=workers,
            model_bytes=parse_codec(codec).encoded_bytes(elements),
            elements=elements,
            compress=codec,
            passes=1 if strategy == "pairwise" else None,
            schedule="ring" if strategy == "pairwise" else None,
        )
        payload, framing = (find(strategy, setting, 1) for find in (predict, predict_framing))
        expected = payload.sent_mean + framing.sent_mean + boundary_bytes(workers)
        context = (strategy, codec, elements, sent)
        assert sum(sent) == pytest.approx(workers * expected, abs=0.5), context


def calls_by_case(rank: int, workers: int) -> list[list[int]]:
    return [_calls(rank, workers, *case) for case in ENCODED]


ENCODED = [("allreduce", "int8"), ("allgather", "topk:0.05"), ("gather-scatter", "sign")]
NUMBERS = 6000


def _calls(rank: int, workers: int, strategy: str, codec: str) -> list[int]:
    """Numbers encoded, encodings, and the same of decoding."""
    experiment = Experiment(strategy=strategy, workers=workers, compress=codec)
    numbers = torch.full((NUMBERS,), rank + 1.0)
    counts = [0, 0, 0, 0]

    class Counting(Feedback):
        def encode(self, tensor: Tensor) -> Tensor:
            counts[0] += tensor.numel()
            counts[1] += 1
            encoded = super().encode(tensor)
            counts[2] -= tensor.numel()  # of its own error feedback
            counts[3] -= 1
            return encoded

        def decode(self, encoded: Tensor, elements: int) -> Tensor:
            counts[2] += elements
            counts[3] += 1
            return super().decode(encoded, elements)

    encoded_exchange.Feedback = Counting  # type: ignore[misc]
    plain = strategies.STRATEGIES[strategy].exchange
    try:
        exchange = stateful_exchange(plain, experiment, numbers, [numbers.shape])
        exchange(numbers, Round(experiment, rank, 0))
    finally:
        encoded_exchange.Feedback = Feedback  # type: ignore[misc]
    return counts


@pytest.mark.parametrize("workers", [2, 4])
def test_lossy_codecs_are_called_as_often_as_predicted(workers: int, tmp_path: Path) -> None:
    by_rank = on_workers(f"{HERE}:calls_by_case", workers, tmp_path)
    for (strategy, codec), *found in zip(ENCODED, *by_rank, strict=True):
        calls = calls_of(strategy, codec, workers)
        assert calls is not None
        expected = [calls.encoded * NUMBERS, calls.encodings, calls.decoded * NUMBERS]
        assert max(found) == [*expected, calls.decodings], (strategy, found)


def test_a_tensor_of_a_few_numbers_ends_before_the_last_segments() -> None:
    assert all_reduce_segments(436, 6, 4) == 11
    assert all_reduce_segments(4, 6, 4) == 1
    assert all_reduce_segments(87_040, 4, 4) == 8
    assert all_reduce_segments(40 * 2**20, 4, 4) == 40
